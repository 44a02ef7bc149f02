"""What a request is about: its items and what they continue, its tools and instructions, read against what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from upstream.kept.content import Contents, Shelf
from upstream.stages import pipeline, proof, render, resolve, screen, validate
from upstream.stages.head import Head, Told
from upstream.stages.head import head as head_of
from upstream.stages.items import Item, read_items
from upstream.stages.style import size
from upstream.turns import tool_choice
from upstream.turns.asked import Asked, Resumed
from upstream.turns.asked import asked as asked_of
from wire.errors import invalid_request, previous_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from upstream.kept.store import Store
    from upstream.stages.pipeline import Context
    from upstream.stages.seal import Sealer
    from upstream.turns.request import Request
    from upstream.websocket.lane import Lane


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


class Reader:
    """Reads requests. `empty` is the conversation that begins over HTTP, `proven` the one on a WebSocket."""

    def __init__(self, sealer: Sealer, store: Store, empty: Context, *, reuses: bool, proves: bool) -> None:
        self._sealer, self._store = sealer, store
        self.empty, self.proven = empty, replace(empty, proof=proof.BEGUN) if proves else empty
        self.reuses = reuses
        """Whether work that was done before is used again."""
        self._contents = Contents(store.budget if reuses else None)

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
        context = pipeline.extend(parent or (self.empty if lane is None else self.proven), fresh)
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

    def _parent(self, request: Request, owner: bytes, lane: Lane | None) -> Context | None:
        wanted = request.fields.previous_response_id
        if wanted is None:
            return None
        kept = lane.find(wanted) if lane is not None else None
        found = kept or self._store.get(wanted, owner)
        if found is None:
            raise previous_not_found(wanted)
        return found.context if self.reuses else pipeline.refolded(self.empty, found.context)

    def _input(self, request: Request, lane: Lane | None, shelf: Shelf, *, bare: bool) -> list[Item]:
        if request.input:
            return read_items(request.input, self._sealer, shelf.item)
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
            return found or self._store.item(item_id, owner)

        return lookup
