"""Admission: from the members of a request to a turn that is ready to be generated, or the error that refuses it.

Everything up to the first event happens here, without I/O, the same for both transports; and settling afterwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from upstream import compaction, pipeline, proof, render, resolve, screen, tool_choice, validate, window
from upstream.answer import Answer
from upstream.asked import Asked, Resumed, resume
from upstream.asked import asked as asked_of
from upstream.content import CACHING, Contents, Shelf
from upstream.gate import Gate, no_model
from upstream.head import Head, Told
from upstream.head import head as head_of
from upstream.items import Item, read_items
from upstream.lane import Kept
from upstream.problems import no_lanes, unsupported
from upstream.prompts import prompt_of, reused
from upstream.request import Request, read_request
from upstream.resumed import ResumedAnswer
from upstream.store import Store, Stored
from upstream.style import Style, size
from upstream.values import compact_threshold
from wire.errors import invalid_request, previous_not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from upstream.engine import Engine, Prompt
    from upstream.lane import Lane
    from upstream.pipeline import Context
    from upstream.proof import Claim
    from upstream.seal import Sealer


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


@dataclass(frozen=True, slots=True)
class Read:
    """What a request is about: the conversation, what of it is new, and what a model is shown beside it."""

    parent: Context | None = field(repr=False)
    listed: tuple[Item, ...] = field(repr=False)
    context: Context = field(repr=False)
    asked: Asked = field(repr=False)
    head: Head = field(repr=False)
    beside: int
    """Tokens of instructions, tools and what makes the model write."""


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
        self.empty = pipeline.Context(
            screened=screen.Screened(screens), rendered=render.Rendered(style=style or Style())
        )
        self._proven = replace(self.empty, proof=proof.BEGUN) if proves else self.empty
        self.gate = gate or Gate()
        self._reuses = caching != CACHING[0]
        self._contents = Contents(store.budget if self._reuses else None)

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
        read = self.read(request, owner, lane, resumed=resumed)
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

    def read(
        self,
        request: Request,
        owner: bytes,
        lane: Lane | None = None,
        *,
        bare: bool = False,
        resumed: Resumed | None = None,
    ) -> Read:
        """The conversation that a request is about. Raises `ApiError`. A `bare` one may have no input at all."""
        parent = self._parent(request, owner, lane)
        shelf = self._contents.of(owner) if parent is None else Shelf()
        listed = self._input(request, lane, shelf, bare=bare)
        fresh = validate.dereferenced(listed, self._lookup(owner, lane))
        context = pipeline.extend(parent or (self.empty if lane is None else self._proven), fresh)
        known = lane.latest.context if lane is not None and lane.latest is not None else context
        offer = resolve.offer_for(request.tools, known.resolved.offer, shelf.offer)
        context = context.under(resolve.Resolved(request.model, offer, context.resolved.added))
        if resumed is None or resumed.chooses_anew:
            tool_choice.matched(request.fields.tool_choice, context.resolved.tools(), offer.echo)
        told = Told(
            request.instructions,
            context.resolved.tools(),
            request.fields.tool_choice or "auto",
            request.fields.reasoning,
        )
        heads = [*(one.head for one in (known, context) if one.head is not None), *shelf.heads]
        head = head_of(context.rendered.style, told, heads)
        # Instructions of a head that is known have passed.
        screen.check(context.screened, None if any(head is one for one in heads) else request.instructions)
        if parent is None:
            self._contents.put(owner, shelf, listed, offer, head)
        asked, context = asked_of(request, offer, resumed), replace(context, head=head)
        return Read(parent, tuple(fresh), context, asked, head, head.tokens + size(render.tail(context.rendered)))

    def settle(self, turn: Turn) -> Kept | None:
        """Keep what the answer leaves; the response to continue from, None unless it was completed."""
        answer = turn.answer
        if answer.status in {"failed", "cancelled"}:
            return None
        # A compaction before the answer is part of the turn's context already.
        written = [item for item in answer.items if item.type != compaction.TYPE]
        context = pipeline.extend(turn.context, written)
        if turn.request.store:
            if not self._reuses:
                context = pipeline.bare(context)
            parent = turn.request.fields.previous_response_id
            output = tuple(answer.items)
            stored = Stored(answer.id, turn.owner, parent, answer.response, turn.fresh, output, context)
            self.store.put(stored)
            self._keep(stored)
        return Kept(answer.id, context, turn.asked) if answer.status == "completed" else None

    def _parent(self, request: Request, owner: bytes, lane: Lane | None) -> Context | None:
        wanted = request.fields.previous_response_id
        if wanted is None:
            return None
        kept = lane.find(wanted) if lane is not None else None
        found = kept or self.store.get(wanted, owner)
        if found is None:
            raise previous_not_found(wanted)
        return found.context if self._reuses else pipeline.refolded(self.empty, found.context)

    def _input(self, request: Request, lane: Lane | None, shelf: Shelf, *, bare: bool) -> list[Item]:
        if request.input:
            return read_items(request.input, self.sealer, shelf.item)
        warm = lane is not None and request.fields.generate is False
        if request.fields.previous_response_id is None and not warm and not bare:
            raise invalid_request(
                "One of 'input' or 'previous_response_id' must be provided.",
                param="input",
                code="missing_required_parameter",
            )
        return []

    def _lookup(self, owner: bytes, lane: Lane | None) -> Callable[[str], Item | None]:
        kept = lane.latest if lane is not None else None

        def lookup(item_id: str) -> Item | None:
            found = kept.context.known.items.get(item_id) if kept is not None else None
            return found or self.store.item(item_id, owner)

        return lookup


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, RecursionError):  # such as a number beyond all bounds, deep within an item
        raise invalid_request("The request holds a value that cannot be read.") from None
