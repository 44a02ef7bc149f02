"""What is done when a turn does not go as planned.

Theory. Only an explicit refusal before any event proves that the upstream started nothing; then the turn is sent once
more, whole. Everything else is told to the client: as an HTTP status while none was sent, inside the stream after.

    what came              before any event       turn started, status held     status sent
    ---------------------  ---------------------  ----------------------------  -----------------------------
    a refusal (table)      full turn, once        503 upstream_refused          `event: error`
    the same once more     503 upstream_refused   503 upstream_refused          `event: error`
    any other error        its HTTP status        its HTTP status               `event: error`
    the link ended         502 link_lost          502 link_lost                 `response.failed`, end
    not written at all     full turn, once        -                             -
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.learned import unchained
from wire.errors import CONNECTION_LIMIT, PREVIOUS_NOT_FOUND, is_connection_limit, is_previous_not_found
from wire.extensions import CONTEXT_MISMATCH, ENVELOPE_UNKNOWN

if TYPE_CHECKING:
    from wire.errors import ApiError


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal that allows one more try: its cause, the turn's reason then, and whether the link is done for."""

    cause: str
    reason: str
    ends_link: bool = False


FORGOT = Refusal(PREVIOUS_NOT_FOUND, "upstream_forgot")
LIMIT = Refusal(CONNECTION_LIMIT, "link_retired", ends_link=True)
UNCHAINED = Refusal("field_unchained", "field_unchained")
ENVELOPE = Refusal("envelope_unknown", "upstream_forgot")
CONTEXT = Refusal(CONTEXT_MISMATCH, "context_mismatch")
NOT_WRITTEN = Refusal("not_written", "link_lost")


def refusal(error: ApiError, *, chained: bool) -> Refusal | None:
    """The refusal that an error before any event is, if it is one. `chained`: the frame named a previous response."""
    if is_connection_limit(error):
        return LIMIT
    if error.code == ENVELOPE_UNKNOWN:
        return ENVELOPE
    if chained and unchained(error):
        return UNCHAINED
    if chained and error.code == CONTEXT_MISMATCH:
        return CONTEXT
    if chained and is_previous_not_found(error):
        return FORGOT
    return None
