from dataclasses import replace

from tests.upstream.helpers import items
from upstream.kept.budget import KEY, LANE, PROCESS, Budget, Scope
from upstream.kept.store import Store, Stored
from upstream.stages.items import output_item
from upstream.stages.pipeline import EMPTY, Context, extend

_ME, _YOU = b"me", b"you"


def _stored(
    name: str, *, parent: Stored | None = None, owner: bytes = _ME, size: int = 1000, response: bytes = b"{}"
) -> Stored:
    fresh = items("x" * size)
    made = output_item({"type": "message", "id": f"msg_{name}", "role": "assistant", "content": []})
    context: Context = extend(parent.context if parent else EMPTY, [*fresh, made])
    return Stored(name, owner, parent.id if parent else None, response, tuple(fresh), (made,), context)


def test_what_was_put_is_found_by_its_owner_alone() -> None:
    store = Store(10_000)
    stored = _stored("a")
    store.put(stored)

    assert store.get("a", _ME) is stored
    assert store.get("a", _YOU) is None
    assert store.get("b", _ME) is None


def test_items_are_found_by_their_owner_alone() -> None:
    store = Store(10_000)
    stored = _stored("a")
    store.put(stored)

    assert store.item("msg_a", _ME) is stored.output[0]
    assert store.item("msg_a", _YOU) is None
    assert store.item("msg_b", _ME) is None


def test_an_item_of_anothers_with_the_same_id_changes_nothing() -> None:
    store = Store(10_000)
    mine, theirs = _stored("a"), replace(_stored("b", owner=_YOU), output=_stored("a").output)
    store.put(mine)
    store.put(theirs)

    assert store.item("msg_a", _ME) is mine.output[0]
    assert store.item("msg_a", _YOU) is theirs.output[0]
    store.delete("b", _YOU)
    assert store.item("msg_a", _ME) is mine.output[0]
    assert store.item("msg_a", _YOU) is None


def test_an_item_is_found_as_long_as_any_response_has_it() -> None:
    for order in ("ab", "ba"):
        store = Store(10_000)
        made = _stored("a")
        echoed = replace(_stored("b", parent=made), input=(*made.output, *made.output))
        store.put(made)
        store.put(echoed)

        store.delete(order[0], _ME)
        assert store.item("msg_a", _ME) == made.output[0]
        store.delete(order[1], _ME)
        assert store.item("msg_a", _ME) is None


def test_a_deleted_response_is_gone_with_its_items() -> None:
    store = Store(10_000)
    store.put(_stored("a"))

    assert store.delete("a", _YOU) is False
    assert store.delete("a", _ME) is True
    assert store.delete("a", _ME) is False
    assert store.item("msg_a", _ME) is None
    assert (len(store), store.bytes) == (0, 0)


def test_the_least_recently_used_leaves_for_a_new_one() -> None:
    store = Store(3500)
    for name in "abc":
        store.put(_stored(name))
        store.get("a", _ME)
    store.put(_stored("d"))

    assert store.get("a", _ME) is not None
    assert store.get("b", _ME) is None
    assert store.bytes <= 3500


def test_one_that_is_larger_than_the_store_is_not_kept() -> None:
    store = Store(500)
    store.put(_stored("a"))

    assert (len(store), store.bytes) == (0, 0)


def test_a_shared_history_is_charged_once() -> None:
    store = Store(1_000_000)
    parent = _stored("a", size=5000)
    store.put(parent)
    alone = store.bytes
    child = _stored("b", parent=parent, size=10)
    store.put(child)

    assert store.bytes < alone + 500


def test_a_history_that_lost_its_child_is_charged_again() -> None:
    store = Store(1_000_000)
    parent = _stored("a", size=5000)
    store.put(parent)
    before = store.bytes
    store.put(_stored("b", parent=parent))
    store.delete("b", _ME)

    assert store.bytes == before


def test_nothing_stays_charged_when_all_is_deleted_in_any_order() -> None:
    for order in ("abc", "cba", "bac"):
        store = Store(1_000_000)
        a = _stored("a")
        b = _stored("b", parent=a)
        for one in (a, b, _stored("c", parent=a)):
            store.put(one)
        for name in order:
            store.delete(name, _ME)
        assert (len(store), store.bytes) == (0, 0)


def test_stored_responses_are_charged_to_their_key_and_the_largest_leaves_first() -> None:
    budget = Budget({LANE: 10**6, KEY: 30_000, PROCESS: 10**6})
    store = Store(10**6, budget)
    for name, size in (("a", 1000), ("b", 12_000), ("c", 2000)):
        store.put(_stored(name, size=size))
    store.put(_stored("d", owner=_YOU, size=15_000))

    assert store.get("b", _ME) is None
    assert store.item("msg_b", _ME) is None
    assert [store.get(name, _ME) is not None for name in "ac"] == [True, True]
    assert store.get("d", _YOU) is not None
    assert budget.used(Scope(KEY, _ME)) + budget.used(Scope(KEY, _YOU)) == budget.used()


def test_one_that_is_larger_than_a_state_may_be_is_not_kept() -> None:
    store = Store(10**6, Budget({LANE: 10_000}))
    store.put(_stored("a", size=10_000))

    assert (len(store), store.bytes) == (0, 0)


def test_a_parent_whose_child_had_to_go_answers_for_its_history_again() -> None:
    budget = Budget({LANE: 20_000, PROCESS: 10**6})
    store = Store(10**6, budget)
    parent = _stored("a", size=8_000)
    store.put(parent)
    alone = budget.used()
    store.put(_stored("b", parent=parent, size=8_000))

    assert store.get("b", _ME) is None
    assert budget.used() == alone


def test_a_compaction_shares_nothing_with_what_it_stands_for() -> None:
    budget = Budget({PROCESS: 10**6})
    store = Store(10**6, budget)
    parent = _stored("a", size=5000)
    store.put(parent)
    alone = budget.used()
    child = _stored("b", parent=parent, size=10)
    summed_up = output_item({"type": "compaction", "id": "cmp_b", "encrypted_content": "x"})
    store.put(replace(child, output=(summed_up,), context=extend(EMPTY, items("short"))))

    assert budget.used() > alone


def test_nothing_stays_charged_to_a_budget_when_all_is_deleted() -> None:
    for order in ("abc", "cba", "bac"):
        budget = Budget({KEY: 10**6, PROCESS: 10**6})
        store = Store(10**6, budget)
        a = _stored("a")
        for one in (a, _stored("b", parent=a), _stored("c", parent=a)):
            store.put(one)
        for name in order:
            store.delete(name, _ME)
        assert budget.used() == 0


def test_items_that_are_lent_are_found_by_their_owner_and_not_kept() -> None:
    store = Store(10_000)
    lent = output_item({"type": "message", "id": "msg_x", "role": "assistant", "content": []})
    with store.lent(_ME, {"msg_x": lent}):
        assert store.item("msg_x", _ME) is lent
        assert store.item("msg_x", _YOU) is None

    assert store.item("msg_x", _ME) is None


def test_a_response_that_is_lent_is_found_by_its_owner_and_not_kept() -> None:
    store = Store(10_000)
    lent = _stored("a")
    with store.lent(_ME, {}, lent):
        assert store.get("a", _ME) is lent
        assert store.get("a", _YOU) is None
        assert store.get("b", _ME) is None

    assert store.get("a", _ME) is None


def test_a_parent_that_comes_back_after_its_child_is_charged_in_full() -> None:
    store = Store(1_000_000)
    parent = _stored("a", size=5000)
    alone = Store(1_000_000)
    alone.put(parent)
    store.put(_stored("b", parent=parent))
    store.put(parent)
    store.delete("b", _ME)

    assert store.bytes == alone.bytes
    store.delete("a", _ME)
    assert store.bytes == 0
