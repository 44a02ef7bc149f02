import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.stages.persistent import Index, Seq

_batches = st.lists(st.lists(st.integers(), max_size=6), max_size=30)
_maps = st.lists(st.dictionaries(st.integers(0, 20), st.integers(), max_size=6), max_size=30)


@given(_batches)
def test_a_sequence_holds_all_that_was_added_in_order(batches: list[list[int]]) -> None:
    grown: Seq[int] = Seq()
    for batch in batches:
        grown = grown.plus(batch)
    flat = [value for batch in batches for value in batch]

    assert list(grown) == flat
    assert list(reversed(grown)) == flat[::-1]
    assert len(grown) == len(flat)
    assert grown == Seq(flat)


@given(st.lists(st.integers()), st.lists(st.integers()), st.lists(st.integers()))
def test_two_sequences_grown_from_one_leave_it_and_each_other_alone(a: list[int], b: list[int], c: list[int]) -> None:
    trunk = Seq(a)
    left, right = trunk.plus(b), trunk.plus(c)

    assert list(trunk) == a
    assert list(left) == a + b
    assert list(right) == a + c


def test_many_small_appends_stand_in_few_chunks() -> None:
    grown: Seq[int] = Seq()
    for value in range(10_000):
        grown = grown.plus([value])

    assert len(grown._chunks) <= 14


def test_what_is_already_there_is_shared_and_not_copied() -> None:
    big = Seq(range(1000))

    assert big.plus([1])._chunks[0] is big._chunks[0]
    assert big.plus([]) is big


@given(st.lists(st.integers()), st.lists(st.integers()), st.dictionaries(st.integers(0, 40), st.integers()))
def test_elements_are_found_and_changed_by_their_place(a: list[int], b: list[int], changed: dict[int, int]) -> None:
    flat = a + b
    trunk = Seq(a).plus(b)
    other = trunk.with_changed({at: value for at, value in changed.items() if at < len(flat)})

    assert [trunk[at] for at in range(len(flat))] == flat
    assert list(other) == [changed.get(at, value) for at, value in enumerate(flat)]
    assert len(other) == len(trunk)
    with pytest.raises(IndexError):
        trunk[len(flat)]


def test_a_change_copies_only_the_chunk_that_it_is_in() -> None:
    trunk = Seq(range(1000)).plus([1])

    assert trunk.with_changed({1000: 2})._chunks[0] is trunk._chunks[0]


def test_sequences_of_other_lengths_or_kinds_are_not_equal() -> None:
    assert Seq([1]) != Seq([1, 2])
    assert Seq([1]) != [1]
    assert repr(Seq([1])) == "Seq(length=1, chunks=1)"


@given(_maps)
def test_an_index_answers_as_a_dictionary_would(maps: list[dict[int, int]]) -> None:
    grown: Index[int, int] = Index()
    plain: dict[int, int] = {}
    for one in maps:
        grown = grown.plus(one)
        plain |= one

    assert grown.as_dict() == plain
    assert grown == Index(plain)
    assert all((key in grown) == (key in plain) and grown.get(key) == plain.get(key) for key in range(21))


def test_an_index_that_grows_leaves_the_older_one_alone() -> None:
    old = Index({1: "a"})
    new = old.plus({1: "b", 2: "c"})

    assert old.get(1) == "a"
    assert old.get(2) is None
    assert new.get(1) == "b"
    assert old.plus({}) is old
    assert old != {1: "a"}
    assert repr(old) == "Index(layers=1)"
