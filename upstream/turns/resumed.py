"""The answer of a turn that resumes a response: `response.resumed`, the usual events of items, `response.done`.

What the client has in its request, or was told by the events before, is not said again. So the events are numbered as
if `response.created` (0) and `response.in_progress` (1) had been sent: a client that rebuilds both passes all others on
as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upstream.turns.answer import Answer
from wire.extensions import DONE, RESUMED

if TYPE_CHECKING:
    from upstream.turns.answer import Event

_NOTHING: dict[str, Any] = {"completed_at": None, "error": None, "incomplete_details": None, "usage": None}


class ResumedAnswer(Answer):
    """One answer in as few words as there can be. The whole object is made only to be stored."""

    def _beginning(self) -> list[Event]:
        self.status = "in_progress"
        event = self._event(RESUMED, response={"id": self.id, "created_at": self.created_at, "status": self.status})
        self._number = 2
        return [event]

    def _ending(self, **changing: Any) -> Event:
        if self.stored:
            self._conclude(**changing)
        return self._event(DONE, response={"id": self.id, "status": self.status} | _NOTHING | changing)
