"""From a completed turn to the head that the next one may continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.canon import canonical
from state.context import base_name, extend, form_of, record_name, veiled
from state.heads import AnswerItem, Head
from state.items import kind
from wire.exact import Inexact, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.digest import Keyed
    from state.envelope import Envelope
    from state.match import Reading


def _answer_item(keyed: Keyed, first: bytes, canonicals: Iterable[bytes]) -> AnswerItem:
    digests = tuple(map(keyed.form, canonicals))
    try:
        value = parse(first)
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
    context: bytes | None = None,
) -> Head | None:
    """The head of a turn whose input was `reading` and whose answer are these items, each in one or two raw forms.

    The first form is the one that clients see first. Services were seen to encrypt reasoning anew between an item's
    own event and the terminal one: the echo of either form is the item.

    `context` is the chain over what the upstream held before it answered, bare (`state.context`).
    `None` when the input's chain is not known, or the answer is without a name or an item: nothing could tell later
    that a turn continues it.
    """
    if reading.base is None or not response_id or not answer:
        return None
    canonicals = [tuple(dict.fromkeys(map(canonical, forms))) for forms in answer]
    items = tuple(_answer_item(keyed, forms[0], known) for forms, known in zip(answer, canonicals, strict=True))
    # Which of two forms the upstream holds cannot be told.
    context = extend(context, (form_of(known[0]) if len(known) == 1 else None for known in canonicals))
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
        base_context=veiled(keyed, base_name(reading.base), reading.context),
        context=veiled(keyed, record_name(chain, response_id), context),
    )
