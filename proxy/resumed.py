"""The answer of a turn that resumed a response, told to the client as the answer of any other turn (docs/wire.md).

Theory. Of three response objects that a client reads, the server sends only what the client's own request and the
items do not say already. The object follows from the request by the rule that both ends share (`wire.response`):

    response.resumed  -->  response.created, response.in_progress     the rule, and what the event says otherwise
    items' events     -->  the same bytes
    response.done     -->  response.completed (or as its status says)  that, the items, and what the event says

To the phases of `proxy.answer` the first is a beginning and the last an end. Events of an ordinary answer are taken as
such: a server may send them instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.answer import Answer, OutOfOrder, Phase, Step
from wire.events import COMPLETED
from wire.extensions import DONE, RESUMED
from wire.response import shown_for
from wire.split import members, splice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wire.events import Event

_ENDS = {
    b'"completed"': COMPLETED,
    b'"incomplete"': "response.incomplete",
    b'"failed"': "response.failed",
}
"""What `response.done` stands for, by the status that it tells."""


class ResumedAnswer(Answer):
    """Collects one turn's events; `request` are the raw members of the client's body."""

    def __init__(self, request: Mapping[str, bytes], shown_previous: bytes = b"null") -> None:
        super().__init__(shown_previous)
        self._request = request

    def _passed(self, frame: bytes, event: Event) -> Step:
        if event.type == RESUMED:
            return self._begun(members(frame))
        if event.type == DONE:
            return self._ended(members(frame))
        return super()._passed(frame, event)

    def _begun(self, event: dict[str, bytes]) -> Step:
        if self.phase is not Phase.SILENT:
            raise OutOfOrder("a second beginning")
        self._rebuild(shown_for(self._request), event)
        first = self.next_sequence - 1
        self.next_sequence += 1
        self.phase = Phase.STARTED
        created, in_progress = (
            Step(kind, self._event(event, kind, first + place))
            for place, kind in enumerate(("response.created", "response.in_progress"))
        )
        return Step(in_progress.type, in_progress.frame, before=created)

    def _ended(self, event: dict[str, bytes]) -> Step:
        if self.phase is Phase.SILENT:
            raise OutOfOrder("an end without a beginning")
        self._rebuild(self._members | {"output": self._joined()}, event)
        kind = _ENDS.get(self._members.get("status", b""))
        if kind is None:
            raise OutOfOrder("an end that is none")
        self.phase, self.terminal = Phase.ENDED, kind
        return Step(kind, self._event(event, kind, self.next_sequence - 1))

    def _rebuild(self, known: dict[str, bytes], event: dict[str, bytes]) -> None:
        """The response object as it is from now on: what was known, and what the event says in the place of it."""
        told = members(event.get("response", b""))
        self._identify(told)
        self._members = known | told | {"previous_response_id": self._shown_previous}
        self._response = splice(self._members.items())

    def _event(self, event: dict[str, bytes], kind: str, number: int) -> bytes:
        own = {"type": msgspec.json.encode(kind), "response": self._response}
        numbered = {"sequence_number": msgspec.json.encode(number)} if "sequence_number" in event else {}
        return splice((event | own | numbered).items())
