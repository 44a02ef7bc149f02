"""`state.digest`: keyed, short, apart by use, and blind to what does not count."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.canon import canonical
from state.digest import EMPTY, SIZE, Keyed

SECRET = b"a made-up secret of some length"
KEYED = Keyed(SECRET)


def test_equal_items_have_one_digest() -> None:
    long = b'{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]}'
    short = b'{"role": "assistant", "content": "b"}'
    assert KEYED.item(long) == KEYED.item(short) == KEYED.form(canonical(short))
    assert KEYED.item(short) != KEYED.item(b'{"role":"assistant","content":"c"}')


def test_another_secret_makes_other_digests() -> None:
    other = Keyed(SECRET + b"!")
    assert Keyed(SECRET).digest(b"a") == KEYED.digest(b"a") != other.digest(b"a")
    assert KEYED.item(b"{}") != other.item(b"{}")
    assert KEYED.name("a") != other.name("a")
    assert KEYED.chain(EMPTY, EMPTY) != other.chain(EMPTY, EMPTY)
    assert KEYED.tenant([b"a"]) != other.tenant([b"a"])
    assert KEYED.prefix_hasher().digest() != other.prefix_hasher().digest()


@pytest.mark.parametrize("secret", [b"x", b"x" * 64, b"x" * 65, b"x" * 10_000])
def test_a_secret_may_have_any_length_but_none(secret: bytes) -> None:
    assert len(Keyed(secret).digest(b"")) == SIZE
    with pytest.raises(ValueError, match="secret"):
        Keyed(b"")


def test_the_same_bytes_in_another_use_have_another_digest() -> None:
    hasher = KEYED.prefix_hasher()
    hasher.update(b"a")
    found = [
        KEYED.digest(b"a"),
        KEYED.digest(b"a", person=b"any"),
        KEYED.digest(b"a", person=b"other"),
        KEYED.form(b"a"),
        KEYED.name("a"),
        hasher.digest(),
        KEYED.tenant([b"a"]),
    ]
    assert len(set(found)) == len(found)
    assert {len(each) for each in found} == {SIZE}


def test_a_use_has_a_short_name() -> None:
    assert len(KEYED.digest(b"", person=b"a" * 12)) == SIZE
    with pytest.raises(ValueError, match="person"):
        KEYED.digest(b"", person=b"a" * 14)


@given(st.lists(st.binary(max_size=3), max_size=4), st.lists(st.binary(max_size=3), max_size=4))
def test_a_tenant_is_its_parts_in_their_order_and_division(one: list[bytes], two: list[bytes]) -> None:
    assert (KEYED.tenant(one) == KEYED.tenant(two)) == (one == two)


@given(st.lists(st.integers(0, 2), max_size=4), st.lists(st.integers(0, 2), max_size=4))
def test_a_chain_is_its_items_in_their_order(one: list[int], two: list[int]) -> None:
    def chained(items: list[int]) -> bytes:
        chain = EMPTY
        for item in items:
            chain = KEYED.chain(chain, KEYED.digest(bytes([item])))
        return chain

    assert (chained(one) == chained(two)) == (one == two)


def test_a_chain_is_made_of_digests_only() -> None:
    for previous, item in ((b"", EMPTY), (EMPTY, b"short"), (EMPTY + b"x", EMPTY[1:])):
        with pytest.raises(ValueError, match="digests"):
            KEYED.chain(previous, item)


@given(st.binary(max_size=40), st.integers(0, 40))
def test_a_prefix_is_read_at_any_length_in_one_pass(raw: bytes, at: int) -> None:
    whole = KEYED.prefix_hasher()
    whole.update(raw)
    hasher = KEYED.prefix_hasher()
    hasher.update(memoryview(raw)[:at])
    part, fork = hasher.digest(), hasher.copy()
    hasher.update(raw[at:])
    alone = KEYED.prefix_hasher()
    alone.update(raw[:at])
    assert part == fork.digest() == alone.digest()
    assert hasher.digest() == whole.digest()


@given(st.binary(min_size=1, max_size=64), st.binary())
def test_what_is_veiled_twice_is_bare_again(value: bytes, name: bytes) -> None:
    assert KEYED.veiled(name, KEYED.veiled(name, value)) == value


def test_a_veil_is_of_one_secret_and_one_name() -> None:
    veils = {KEYED.veiled(b"a", EMPTY), KEYED.veiled(b"b", EMPTY), Keyed(b"another").veiled(b"a", EMPTY), EMPTY}
    assert len(veils) == 4


def test_a_name_may_be_any_text() -> None:
    assert KEYED.name("resp_1") != KEYED.name("resp_2")
    assert len(KEYED.name("\ud800é")) == SIZE


def test_the_secret_shows_nowhere() -> None:
    assert repr(KEYED) == "Keyed()"
    assert not any(SECRET in repr(getattr(KEYED, name)).encode() for name in Keyed.__slots__)
    with pytest.raises(TypeError):
        pickle.dumps(KEYED)
