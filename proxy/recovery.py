"""What is done when a turn does not go as planned: one table, by what came and how far the turn was.

Theory. Only what proves that the upstream started nothing is answered by sending the turn once more, whole: that it was
never written, or an explicit refusal, before any event, of a cause that lies with links and not with the turn. All else
may have run and is told to the client: as an HTTP status while none was sent, inside the stream after. So an opaque
error of a continuation, such as a 5xx without a word about its parent, is shown: nothing in it says that nothing ran.

    what came                   unsent       silent              begun               shown
    --------------------------  -----------  ------------------  ------------------  -------------------------
    NOT_WRITTEN                 again        -                   -                   -
      once more                 by HTTP      -                   -                   -
    REFUSED (`refusal`)         -            again               503 *refused*       `error` *refused*
      once more                 -            503 *refused*       503 *refused*       `error` *refused*
    ERROR                       -            its status          its status          `error`, its own
    ENDED: the link died        -            502 *link_lost*     502 *link_lost*     `response.failed`
      with --replay-ambiguous   -            again               502 *link_lost*     `response.failed`
      once more                 -            502 *link_lost*     502 *link_lost*     `response.failed`
    LATE: no event for so long  -            504 *upstream_late* 504 *upstream_late* `response.failed`

*Codes* are the sidecar's own (docs/reasons.md). `again` happens once a turn, whatever the cause. `response.failed` is
made of a response object; before there is one it is an `error`. Beside that: REFUSED by age ends the link, LATE
ends it, an event out of order is ENDED, an error of status 401 ends all links of its tenant, and what the gates make of
dials stands in `proxy.gates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from proxy.learned import unchained
from wire.errors import CONNECTION_LIMIT, PREVIOUS_NOT_FOUND, is_connection_limit, is_previous_not_found, server_error
from wire.extensions import CONTEXT_MISMATCH, ENVELOPE_UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wire.errors import ApiError

Came = Enum("Came", ["NOT_WRITTEN", "REFUSED", "ERROR", "ENDED", "LATE"])
When = Enum("When", ["UNSENT", "SILENT", "BEGUN", "SHOWN"])
"""Nothing written; no event yet; events, but no HTTP status sent; a status sent."""
Does = Enum("Does", ["AGAIN", "HTTP", "STATUS", "EVENT", "FAILED"])

_TOLD: Final = {When.SILENT: Does.STATUS, When.BEGUN: Does.STATUS}
_OF_ERRORS: Final = _TOLD | {When.SHOWN: Does.EVENT}
_OF_LINKS: Final = _TOLD | {When.SHOWN: Does.FAILED}
TABLE: Final[Mapping[Came, Mapping[When, Does]]] = MappingProxyType(
    {
        Came.NOT_WRITTEN: {When.UNSENT: Does.HTTP},
        Came.REFUSED: _OF_ERRORS,
        Came.ERROR: _OF_ERRORS,
        Came.ENDED: _OF_LINKS,
        Came.LATE: _OF_LINKS,
    }
)
"""What is done when the turn may not be sent again."""
AGAIN: Final = frozenset({(Came.NOT_WRITTEN, When.UNSENT), (Came.REFUSED, When.SILENT)})
"""Where it is sent again, once."""
AMBIGUOUS: Final = (Came.ENDED, When.SILENT)
"""Where it is as well, once, when the operator wants it: the turn may have run."""


def does(came: Came, when: When, *, may_retry: bool, replays: bool = False) -> Does:
    """What is done. `may_retry`: it was not done before in this turn; `replays`: the operator's leave."""
    if may_retry and ((came, when) in AGAIN or (replays and (came, when) == AMBIGUOUS)):
        return Does.AGAIN
    return TABLE[came][when]


OWN: Final[Mapping[Came, ApiError]] = MappingProxyType(
    {
        # What the client never caused is not what it is told: another try of its own is all that it can do.
        Came.REFUSED: server_error(
            "The upstream could not continue the conversation. Try again.", status=503, code="upstream_refused"
        ),
        Came.ENDED: server_error(
            "The connection to the upstream was lost before the answer ended.", status=502, code="link_lost"
        ),
        Came.LATE: server_error("The upstream said nothing for too long.", status=504, code="upstream_late"),
    }
)
"""The sidecar's own errors; any other is the upstream's."""


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
REPLAYED = Refusal("link_lost", "link_lost")


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
