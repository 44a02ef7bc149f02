"""Which headers go where: into the tenant key, onto a handshake, through to the upstream, back to the client."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from multidict import MultiMapping

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_MAX_DIGITS = 9
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

CREDENTIALS = ("authorization", "api-key", "x-api-key", "chatgpt-account-id")
IDENTITY = (*CREDENTIALS, "openai-organization", "openai-project", "openai-beta")
"""Headers that name on whose behalf a turn runs, and by which rules. They make the tenant."""

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    },
)
"""RFC 9110, 7.6.1: meant for one connection only."""

OWN_PREFIX = "x-deltawire-"
_ERROR_HEADERS_DROPPED = frozenset(
    {"content-length", "content-type", "content-encoding", "date", "server", "set-cookie"}
)


def tenant_parts(upstream: str, headers: Mapping[str, str], forwarded: Iterable[str]) -> list[bytes]:
    """What tells one tenant from another, in a fixed order; a header that is absent differs from an empty one."""
    parts = [upstream.encode()]
    for name in (*IDENTITY, *sorted(forwarded)):
        value = _whole(headers, name)
        # The name as well: sidecars that share heads may forward different headers.
        parts.append(name.encode())
        parts.append(b"-" if value is None else b"+" + value.encode("utf-8", "surrogateescape"))
    return parts


def for_handshake(headers: Mapping[str, str], forwarded: Iterable[str]) -> dict[str, str]:
    """Headers of a link's handshake. Per-turn headers are not among them: a link outlives the turn that opened it."""
    wanted = ((name, _whole(headers, name)) for name in (*IDENTITY, "user-agent", *forwarded))
    return {name: value for name, value in wanted if value is not None}


def _whole(headers: Mapping[str, str], name: str) -> str | None:
    """A header's value; lines of the same name are one list (RFC 9110, 5.3), as when each beta has its own."""
    if isinstance(headers, MultiMapping):
        return ", ".join(headers.getall(name)) if name in headers else None
    return headers.get(name)


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that an answer asks to wait (RFC 9110, 10.2.3), 0 when it does not; a date counts from its own `date`."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:_MAX_DIGITS])
    try:
        until, since = (parsedate_to_datetime(date).timestamp() for date in (text, headers.get("date", "")))
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, until - since)


def through(headers: Collection[tuple[str, str]]) -> list[tuple[str, str]]:
    """End-to-end headers of a message, order and case kept; our own control headers are not taken from outside.

    Control characters become spaces (RFC 9110, 5.5): with them the message could not be sent on.
    """
    dropped = HOP_BY_HOP | {"host", "content-length"}
    for name, value in headers:
        if name.lower() == "connection":
            dropped |= {token.strip().lower() for token in value.split(",")}
    return [
        (name, _CONTROL.sub(" ", value))
        for name, value in headers
        if (low := name.lower()) not in dropped and not low.startswith(OWN_PREFIX)
    ]


def phrase(reason: str | None) -> str | None:
    """The words beside a status, or none where they cannot be sent on; nobody needs them (RFC 9112, 4)."""
    return None if reason is None or _CONTROL.search(reason) else reason


def of_error(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that an error frame carried for its HTTP answer, above all `retry-after`."""
    return {
        name: value
        for name, value in headers.items()
        if name not in HOP_BY_HOP
        and name not in _ERROR_HEADERS_DROPPED
        and not name.startswith(OWN_PREFIX)
        and _NAME.fullmatch(name)
        and value.isascii()
        and value.isprintable()
    }
