from tests.upstream.helpers import items
from upstream.items import output_item
from upstream.pipeline import EMPTY, Context, extend
from upstream.store import Store, Stored

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
