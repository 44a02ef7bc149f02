"""The vocabulary of outcomes: every code that a header, a log line or a metric label may carry, with its meaning.

Import-light on purpose: deciding code takes its words from here. Adding a code is free; renaming one breaks dashboards.
"""

import re
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Final

OTHER: Final = "other"
"""The label of a code that stands in none of these lists; seeing it means that the list lacks a line."""

_WORD: Final = re.compile(r"[a-z0-9_.-]{1,64}")

TRANSPORTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "delta": "Only the new items went over a link, on top of a response that the upstream still holds.",
        "full": "The whole history went over a link.",
        "http": "The body went to the upstream as a plain HTTP request.",
    }
)

NO_TRANSPORT: Final = "none"
"""The transport label of a turn that was answered before any transport was tried."""

REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "first_turn": "The input holds no answer of the upstream yet, so there is nothing to continue.",
        "unknown_head": "The input continues a conversation that is not known here, or no longer.",
        "envelope_changed": "A field outside the input that decides how the context is read has changed.",
        "history_diverged": "The input differs from the known history before its end.",
        "reasoning_dropped": "The client echoed the last answer without its reasoning items.",
        "output_reordered": "The client echoed the items of the last answer in another order.",
        "head_busy": "Another turn is running on the same state at this moment.",
        "superseded": "The lane has moved on to a later response, and only its newest can be continued there.",
        "link_lost": "The link that held the state has died.",
        "link_retired": "The link that held the state reached its age limit and was closed between turns.",
        "not_continued": "The upstream refused several continuations in a row, so that none is tried for a while.",
        "field_unchained": "The upstream takes a field of the request on whole turns only.",
        "upstream_forgot": "The upstream answered that it no longer has the previous response.",
        "client_state": "The client itself refers to state at the upstream (previous response, conversation, ...).",
        "too_large": "The frame would be larger than the upstream takes on a link.",
        "no_websocket": "The upstream offers no WebSocket mode.",
        "breaker_open": "Links died under several turns in a row, so that none is used for a while.",
        "disabled": "The configured transport excludes what would have been used.",
        "one_shot": "A first turn without tools went by HTTP because no warm link was free.",
        "links_exhausted": "As many links as allowed are open, all of them busy.",
        "dial_failed": "A new link could not be opened, or none was tried so soon after one that could not.",
        "dials_limited": "As many new links are being opened as the upstream is burdened with at once.",
        "context_mismatch": "The upstream holds another context than the client sent.",
        "unreadable": "The body could not be taken apart with certainty and went on as it was.",
        "empty_delta": "The input adds nothing to the known history.",
    }
)

RETRY_CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "previous_response_not_found": "The upstream refused the turn because it lost the previous response.",
        "websocket_connection_limit_reached": "The upstream refused the turn because the link reached its time limit.",
        "field_unchained": "The upstream refused to continue a response beside a field of the request.",
        "envelope_unknown": "The upstream no longer had a part of the envelope that was sent as a digest.",
        "context_mismatch": "The upstream compared the digest of the context and found another one.",
        "link_lost": "The link died before any event of the turn, and --replay-ambiguous had it sent once more.",
        "not_written": "The link died before any byte of the turn was written to it.",
    }
)

DIALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "opened": "The link is open.",
        "refused": "The upstream answered the handshake with another status than 101.",
        "unanswered": "The handshake was not answered in time, or the connection ended.",
        "unreachable": "No connection could be made.",
        "given_up": "The turn that needed the link was gone before it was open.",
    }
)

GATES: Final[Mapping[str, str]] = MappingProxyType(
    {code: REASONS[code] for code in ("no_websocket", "dial_failed", "breaker_open")}
)
"""Reasons that hold for a while: as long as a gate before the links is shut."""

LINK_ENDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "closed_by_upstream": "The upstream closed the link with a close frame.",
        "aborted": "The transport broke without a close frame.",
        "out_of_order": "Something came that no turn on the link was waiting for.",
        "connection_limit": "The upstream announced that the link reached its time limit.",
        "retired": "The link reached its age limit and was closed between turns.",
        "idle": "The link was not used for as long as idle links are kept.",
        "drain": "The sidecar is shutting down.",
        "write_failed": "A frame could not be written.",
        "ping_timeout": "A ping was not answered in time.",
        "event_timeout": "No event of the turn on it came in time.",
        "client_gone": "The client left in the middle of an answer, which ends the link to stop the work.",
        "too_large": "The upstream closed the link because a frame was larger than it takes.",
        "unauthorized": "The upstream takes the credentials no longer that the link was opened with.",
        "oversized": "A message larger than the limit arrived.",
    }
)

SIDECAR_ERRORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "link_lost": "The link died after the turn was written, so whether the upstream ran it is not known.",
        "upstream_late": "No event of the turn came in time, and whether the upstream goes on with it is not known.",
        "upstream_refused": "The upstream refused the turn for a cause of its links, and not for the first time.",
        "upstream_unreachable": "No connection to the upstream could be made, or it ended before an answer began.",
        "invalid_http": "The request line or a header cannot be read.",
        "invalid_json": "The body is not a JSON object that can be read.",
        "invalid_encoding": "The body does not decode by its Content-Encoding.",
        "unsupported_encoding": "The Content-Encoding is none that the sidecar knows.",
        "body_too_large": "The body is larger than the configured limit.",
        "shutting_down": "The sidecar is draining and takes no new turns.",
        "internal": "The sidecar itself failed; the log line of the turn says where.",
    }
)

STATE_OPERATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "connect": "Opening a connection to the shared state.",
        "read": "Looking for heads.",
        "write": "Storing a head.",
        "delete": "Dropping heads.",
    }
)


def bounded(code: str, known: Container[str]) -> str:
    """The code itself where it is a known one, `other` where not: what keeps label values finite."""
    return code if code in known else OTHER


def word(code: str) -> str:
    """A code that somebody else has made up, `other` where it is no plain word: such a one may quote content."""
    return code if _WORD.fullmatch(code) else OTHER
