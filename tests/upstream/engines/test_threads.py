from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from upstream.engines import threads
from upstream.engines.chains import packed, unpacked
from upstream.engines.threads import Thread, Threads

if TYPE_CHECKING:
    import pytest

_OPENING = 1


def _ids(*tokens: int) -> bytes:
    return packed(tokens)


def _ran(pool: Threads, owner: bytes, ids: bytes, written: bytes = b"", key: str = "k") -> Thread:
    thread = pool.take(owner, ids)
    if not thread.key:
        thread.begin(key)
    thread.ran("r", ids, written)
    pool.give_back(thread)
    return thread


def test_what_goes_on_says_from_where_and_sends_the_new_tokens() -> None:
    thread = Thread(b"a")
    thread.begin("k")
    thread.ran("r", _ids(5, 6), _ids(7))

    assert thread.step(_ids(5, 6, 7, 8, 9), _OPENING) == ({"id": "k", "rid": "r", "offset": 3}, _ids(8, 9))
    assert thread.step(_ids(5, 6, 9, 8), _OPENING) == ({"id": "k", "rid": "r", "offset": 2}, _ids(9, 8))


def test_without_an_id_or_anything_in_common_all_is_sent() -> None:
    thread = Thread(b"a")
    thread.ran("r", _ids(5, 6), b"")
    assert thread.step(_ids(5, 6, 7), _OPENING) == ({}, _ids(5, 6, 7))
    thread.begin("k")
    assert thread.step(_ids(5, 6, 7), _OPENING) == ({"id": "k"}, _ids(5, 6, 7))
    thread.ran("r", _ids(5, 6), b"")
    assert thread.step(_ids(9, 6, 7), _OPENING) == ({"id": "k"}, _ids(9, 6, 7))


def test_something_is_always_sent_and_never_a_beginning_first() -> None:
    thread = Thread(b"a")
    thread.begin("k")
    thread.ran("r", _ids(5, 6, 7), b"")

    assert thread.step(_ids(5, 6, 7), _OPENING)[1] == _ids(7)
    assert thread.step(_ids(5, 6), _OPENING)[1] == _ids(6)
    assert thread.step(_ids(5, 6, 7, _OPENING, 8), _OPENING) == (
        {"id": "k", "rid": "r", "offset": 2},
        _ids(7, _OPENING, 8),
    )


def test_a_conversation_finds_its_thread_by_its_tokens_and_another_owner_never() -> None:
    pool = Threads()
    one, other = _ran(pool, b"a", _ids(5, 6, 7, 8)), _ran(pool, b"a", _ids(5, 9, 9, 9))

    assert pool.take(b"a", _ids(5, 6, 7, 8, 10)) is one
    assert pool.take(b"b", _ids(5, 9, 9, 9, 10)).tokens == b""
    assert pool.take(b"a", _ids(5, 9, 9, 9, 10)) is other


def test_the_thread_with_the_most_of_a_prompt_is_taken_and_one_with_little_is_left_alone() -> None:
    pool = Threads()
    _ran(pool, b"a", _ids(5, 6))
    longer = _ran(pool, b"a", _ids(5, 6, 7, 8), key="l")

    assert pool.take(b"a", _ids(5, 6, 7, 8, 9)) is longer
    pool.give_back(longer)
    assert pool.take(b"a", _ids(5)).tokens != longer.tokens


def test_of_many_forks_the_one_that_goes_on_is_found() -> None:
    pool, base = Threads(), range(90)
    forks = [pool.take(b"a", _ids(*base)) for _ in range(20)]
    for number, fork in enumerate(forks):
        fork.ran("r", _ids(*base), _ids(100 + number))
    for fork in forks:
        pool.give_back(fork)

    assert pool.take(b"a", _ids(*base, 100, 7)) is forks[0]
    assert pool.take(b"a", _ids(*base, 119, 7)) is forks[19]
    assert pool.take(b"a", _ids(*base, 7)) in forks, "of those that are left, one that was used lately"


def test_a_turn_beside_a_running_one_has_a_thread_of_its_own() -> None:
    pool = Threads()
    thread = _ran(pool, b"a", _ids(5, 6))

    assert pool.take(b"a", _ids(5, 6, 7)) is thread
    assert pool.take(b"a", _ids(5, 6, 8)) is not thread


def test_the_least_recently_used_thread_goes_first_and_never_a_running_one() -> None:
    pool = Threads(2)
    for number in range(3):
        _ran(pool, b"a", _ids(number, 6), key=f"k{number}")
    running = pool.take(b"a", _ids(1, 6))
    thread = pool.take(b"a", _ids(7, 6))
    thread.begin("k7")
    thread.ran("r", _ids(7, 6), b"")

    assert pool.give_back(thread) == ["k2"]
    assert pool.give_back(running) == []
    assert sorted(pool.clear()) == ["k1", "k7"]
    assert pool.clear() == []


def test_a_turn_that_came_to_nothing_leaves_nothing() -> None:
    pool = Threads(1)
    pool.give_back(pool.take(b"a", _ids(5)))

    assert pool.clear() == []


def test_a_thread_that_holds_too_much_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_MAX_HELD", 10)
    thread = Thread(b"a")
    thread.begin("k")
    thread.ran("r", _ids(*range(4)), _ids(4))

    assert not thread.is_full(_ids(*range(5)))
    assert thread.is_full(_ids(*range(6)))
    thread.begin("l")
    assert not thread.is_full(_ids(*range(6)))


def test_tokens_are_not_shown() -> None:
    thread = Thread(b"owner")
    thread.ran("r", _ids(5), b"")

    assert "owner" not in repr(thread)
    assert str(_ids(5)) not in repr(thread)


_TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(st.lists(st.tuples(_TOKENS, _TOKENS), min_size=1, max_size=6))
def test_what_the_engine_puts_together_is_always_the_prompt(turns: list[tuple[list[int], list[int]]]) -> None:
    thread = Thread(b"a")
    thread.begin("k")
    engine: dict[str, list[int]] = {}
    for number, (prompt, written) in enumerate(turns):
        params, sent = thread.step(packed(prompt), _OPENING)
        fresh = unpacked(sent)
        if "rid" in params:
            assert fresh[0] != _OPENING
            fresh = [*engine[params["rid"]][: params["offset"]], *fresh]
        assert fresh == prompt
        thread.ran(str(number), packed(prompt), packed(written))
        engine[str(number)] = [*prompt, *written]
