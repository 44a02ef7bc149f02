"""From a completed turn to the head that the next one may continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.heads import AnswerItem, Head
from state.items import kind
from wire.exact import Inexact, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.digest import Keyed
    from state.envelope import Envelope
    from state.match import Reading


def answer_item(keyed: Keyed, forms: Sequence[bytes]) -> AnswerItem:
    """One answered item, given the raw forms in which it was sent; the first is the one that clients see first.

    Services were seen to encrypt reasoning anew between an item's own event and the terminal one: the echo of either
    form is the item.
    """
    digests = tuple(dict.fromkeys(keyed.item(raw) for raw in forms))
    try:
        value = parse(forms[0])
    except Inexact:
        return AnswerItem(digests)
    name = value.get("id") if isinstance(value, dict) else None
    return AnswerItem(
        digests,
        reference=keyed.name(name) if isinstance(name, str) and name else None,
        reasoning=kind(value) == "reasoning",
    )


def head_of(
    keyed: Keyed,
    reading: Reading,
    *,
    tenant: bytes,
    envelope: Envelope,
    response_id: str,
    stored: bool,
    answer: Sequence[Sequence[bytes]],
    link: int | None,
    turns: int = 1,
) -> Head | None:
    """The head of a turn whose input was `reading` and whose answer are these items, each in one or two forms.

    `None` when the input's chain is not known, or the answer is without a name or an item: nothing could tell later
    that a turn continues it.
    """
    if reading.base is None or not response_id or not answer:
        return None
    items = tuple(answer_item(keyed, forms) for forms in answer)
    chain = other = reading.base
    for item in items:
        chain = keyed.chain(chain, item.digests[0])
        other = keyed.chain(other, item.digests[-1])
    return Head(
        tenant=tenant,
        response_id=response_id,
        stored=stored,
        envelope=envelope,
        base_count=reading.count,
        base=reading.base,
        chain=chain,
        answer=items,
        other_chain=other if other != chain else None,
        prefix=reading.prefix,
        link=link,
        turns=turns,
        answered=reading.answers,
    )
