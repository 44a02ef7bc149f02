"""Records: what survives a trip through Redis, and that nothing else is ever taken for a head."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.digest import SIZE, Keyed
from state.envelope import EnvelopeReader
from state.heads import AnswerItem, Head, Prefix
from state.records import VERSION, Unreadable, decode, encode

TENANT = b"t" * SIZE
DIGESTS = st.binary(min_size=SIZE, max_size=SIZE)
CHAINS = st.binary(min_size=32, max_size=32)
COUNTS = st.integers(0, 2**40)
ANSWERS = st.lists(
    st.builds(
        AnswerItem,
        digests=st.lists(DIGESTS, min_size=1, max_size=2).map(tuple),
        reference=st.none() | DIGESTS,
        reasoning=st.booleans(),
    ),
    max_size=4,
).map(tuple)
ENVELOPES = st.builds(
    EnvelopeReader(Keyed(b"s")).read,
    st.dictionaries(st.sampled_from(["model", "tools", "novelty", "émile"]), st.sampled_from([b"1", b'"x"', b"[]"])),
)
HEADS = st.builds(
    Head,
    tenant=st.just(TENANT),
    response_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    stored=st.just(True),
    envelope=ENVELOPES,
    base_count=COUNTS,
    base=DIGESTS,
    chain=DIGESTS,
    answer=ANSWERS,
    other_chain=st.none() | DIGESTS,
    prefix=st.none() | st.builds(Prefix, COUNTS, DIGESTS),
    link=st.none() | st.integers(0, 9),
    turns=COUNTS,
    base_context=st.none() | CHAINS,
    context=st.none() | CHAINS,
    leases=st.integers(0, 2),
)


def facts(head: Head) -> dict[str, object]:
    return {name: getattr(head, name) for name in Head.__dataclass_fields__}


def head(**changes: object) -> Head:
    made = Head(
        tenant=TENANT,
        response_id="resp_1",
        stored=True,
        envelope=EnvelopeReader(Keyed(b"s")).read({"model": b'"m"'}),
        base_count=1,
        base=b"b" * SIZE,
        chain=b"c" * SIZE,
        answer=(AnswerItem((b"a" * SIZE,), b"r" * SIZE, reasoning=True),),
        prefix=Prefix(7, b"p" * SIZE),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def record(place: int, value: object) -> bytes:
    members = msgpack.unpackb(encode(head()))
    members[place] = value
    packed: bytes = msgpack.packb(members)
    return packed


@given(HEADS)
def test_a_stored_head_comes_back_with_everything_but_its_link_and_leases(stored: Head) -> None:
    assert facts(decode(TENANT, encode(stored))) == facts(stored) | {"link": None, "leases": 0}


def test_the_tenant_is_that_of_the_reader_and_stands_in_no_record() -> None:
    assert TENANT not in encode(head())
    assert decode(b"u" * SIZE, encode(head())).tenant == b"u" * SIZE


def test_a_head_that_is_not_stored_has_no_record() -> None:
    with pytest.raises(ValueError, match="stored"):
        encode(head(stored=False))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, VERSION + 1),
        (0, None),
        (1, ""),
        (1, b"resp_1"),
        (2, [["model", b"short"]]),
        (2, [["model"]]),
        (3, -1),
        (3, True),
        (4, b"short"),
        (5, None),
        (6, "c" * SIZE),
        (7, [[[], None, False]]),
        (7, [[[b"a" * SIZE], None, 0]]),
        (7, [[[b"a" * SIZE], None, False, "more"]]),
        (8, [1, b"p" * SIZE, 2]),
        (8, [-1, b"p" * SIZE]),
        (9, 1.5),
    ],
)
def test_a_record_with_any_other_shape_is_unreadable(place: int, value: object) -> None:
    with pytest.raises(Unreadable):
        decode(TENANT, record(place, value))


@pytest.mark.parametrize("change", ["longer", "shorter", "trailing"])
def test_a_record_with_more_or_fewer_members_is_unreadable(change: str) -> None:
    members = msgpack.unpackb(encode(head()))
    data = {
        "longer": msgpack.packb([*members, 1]),
        "shorter": msgpack.packb(members[:-1]),
        "trailing": encode(head()) + b"\0",
    }[change]
    with pytest.raises(Unreadable):
        decode(TENANT, data)


@given(st.binary(max_size=200))
def test_garbage_is_unreadable_and_never_anything_worse(data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(TENANT, data)


@given(HEADS, st.data())
def test_a_damaged_record_is_unreadable_or_a_well_formed_head(stored: Head, data: st.DataObject) -> None:
    good = encode(stored)
    place = data.draw(st.integers(0, len(good) - 1))
    bad = good[:place] + bytes([good[place] ^ data.draw(st.integers(1, 255))]) + good[place + 1 :]
    try:
        read = decode(TENANT, bad)
    except Unreadable:
        return
    assert decode(TENANT, encode(read)).chain == read.chain
    assert len(read.chain) == SIZE


def test_what_went_wrong_says_nothing_of_the_record() -> None:
    with pytest.raises(Unreadable) as caught:
        decode(TENANT, record(1, b"resp_secret"))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
