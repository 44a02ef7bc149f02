"""Admission: from the members of a request to a turn that is ready to be generated, or the error that refuses it.

Everything up to the first event happens here, without I/O, the same for both transports; and settling afterwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from upstream.access.gate import Gate, no_model
from upstream.kept.content import CACHING
from upstream.kept.store import Store, Stored
from upstream.problems import no_lanes, unsupported
from upstream.stages import compaction, pipeline, proof, render, screen, window
from upstream.stages.style import Style
from upstream.turns.answer import Answer
from upstream.turns.asked import Asked, Kept, Resumed, resume
from upstream.turns.prompts import prompt_of, reused
from upstream.turns.reading import Reader
from upstream.turns.request import Request, read_request
from upstream.turns.resumed import ResumedAnswer
from upstream.turns.values import compact_threshold
from wire.errors import invalid_request, previous_not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from upstream.engine import Engine, Prompt
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context
    from upstream.stages.proof import Claim
    from upstream.stages.seal import Sealer
    from upstream.websocket.lane import Lane


@dataclass(frozen=True, slots=True)
class Turn:
    """One admitted request. `prompt` is None for a warm-up, which writes nothing and reads `warm`."""

    request: Request
    owner: bytes = field(repr=False)
    context: Context = field(repr=False)
    asked: Asked = field(repr=False)
    fresh: tuple[Item, ...] = field(repr=False)
    prompt: Prompt | None = field(repr=False)
    answer: Answer = field(repr=False)
    input_tokens: int = 0
    cached_tokens: int = 0
    warm: Prompt | None = field(default=None, repr=False)


class Admission:
    """What is shared by all requests of a server: the engine's rules, the key, the stored responses."""

    def __init__(
        self,
        *,
        engine: Engine,
        sealer: Sealer,
        store: Store,
        now: Callable[[], int],
        gate: Gate | None = None,
        context_window: int = 0,
        screens: tuple[screen.Screen, ...] = (),
        style: Style | None = None,
        caching: str = CACHING[-1],
        keep: Callable[[Stored], None] = lambda _: None,
        proves: bool = False,
    ) -> None:
        self._engine, self.sealer, self.store, self._now = engine, sealer, store, now
        self._window, self._keep = context_window, keep
        empty = pipeline.Context(screened=screen.Screened(screens), rendered=render.Rendered(style=style or Style()))
        self.reader = Reader(sealer, store, empty, reuses=caching != CACHING[0], proves=proves)
        self.gate = gate or Gate()

    def admit(
        self, members: dict[str, bytes], owner: bytes, lane: Lane | None = None, claim: Claim | None = None
    ) -> Turn:
        """The turn. Raises `ApiError`. `lane` is None over HTTP: then only stored responses can be continued."""
        with _readable():
            return self._admit(read_request(members), owner, lane, claim)

    def resume(
        self, members: dict[str, bytes], owner: bytes, lane: Lane, response_id: str, claim: Claim | None = None
    ) -> Turn:
        """The turn that goes on from the lane's latest response, which has to have this id. Raises `ApiError`.

        `members` are the new items, and what else is to be otherwise than it was for that response.
        """
        kept = lane.latest
        if kept is None or kept.id != response_id:
            raise previous_not_found(response_id)
        with _readable():
            resumed = resume(kept.asked, members, response_id)
            return self._admit(resumed.request, owner, lane, claim, resumed)

    def _admit(
        self, request: Request, owner: bytes, lane: Lane | None, claim: Claim | None, resumed: Resumed | None = None
    ) -> Turn:
        if request.fields.stream_id is not None:
            raise no_lanes() if lane is not None else unsupported("stream_id", "Lanes exist on WebSockets only.")
        self.permit(owner, request.model)
        read = self.reader.read(request, owner, lane, resumed=resumed)
        proof.check(claim, read.context.proof)
        asked, context, warm = read.asked, read.context, lane is not None and request.fields.generate is False
        threshold = None if warm else compact_threshold(request.fields)
        compacted = compaction.due(context, self.sealer, threshold, read.beside)
        if compacted is not None:
            context = pipeline.extend(context, [compacted])
        truncation = request.fields.truncation
        shown = window.fitted(context, beside=read.beside, window=self._window, truncation=truncation)
        total = shown.rendered.tokens + read.beside
        # Nothing is reused of a parent that the engine is not shown from its beginning on.
        anew = shown is not read.context or any(item.type == compaction.TYPE for item in read.listed)
        cached = reused(read.parent, context) if read.parent is not None and not anew else 0
        self.gate.spend(owner, total)
        answer = (Answer if resumed is None else ResumedAnswer)(
            request,
            shown=asked.shown,
            input_tokens=total,
            cached_tokens=cached,
            created_at=self._now(),
            sealer=self.sealer,
            compaction=compacted,
        )
        prompt = prompt_of(request, shown, read, owner)
        seen, warmed = (None, prompt) if warm else (prompt, None)
        return Turn(request, owner, context, asked, read.listed, seen, answer, total, cached, warmed)

    def permit(self, owner: bytes, model: str) -> None:
        """Raise `ApiError` unless the model is there, and for this owner."""
        self.gate.permit(owner, model)
        if not self._engine.accepts(model):
            raise no_model(model)

    def settle(self, turn: Turn) -> Kept | None:
        """Keep what the answer leaves; the response to continue from, None unless it was completed."""
        answer = turn.answer
        if answer.status in {"failed", "cancelled"}:
            return None
        # A compaction before the answer is part of the turn's context already.
        written = [item for item in answer.items if item.type != compaction.TYPE]
        context = pipeline.extend(turn.context, written)
        if turn.request.store:
            if not self.reader.reuses:
                context = pipeline.bare(context)
            parent = turn.request.fields.previous_response_id
            output = tuple(answer.items)
            stored = Stored(answer.id, turn.owner, parent, answer.response, turn.fresh, output, context)
            self.store.put(stored)
            self._keep(stored)
        return Kept(answer.id, context, turn.asked) if answer.status == "completed" else None


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, RecursionError):  # such as a number beyond all bounds, deep within an item
        raise invalid_request("The request holds a value that cannot be read.") from None
