"""What is shown of a tenant, and that what is learned of one neither reaches another nor grows without end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.tenants import PerTenant, shown


def test_a_tenant_is_shown_by_eight_digits() -> None:
    assert shown(bytes(range(0xA0, 0xB0))) == "a0a1a2a3"


def test_what_is_learned_of_one_tenant_says_nothing_of_another() -> None:
    known: PerTenant[str] = PerTenant()
    known.put(b"a", "one")
    known.put(b"b", "two")
    known.put(b"a", "three")
    assert (known.get(b"a"), known.get(b"b"), known.get(b"c"), len(known)) == ("three", "two", None, 2)
    known.forget(b"a")
    known.forget(b"c")
    assert (known.get(b"a"), known.get(b"b"), len(known)) == (None, "two", 1)


@given(st.lists(st.tuples(st.sampled_from("abcdef").map(str.encode), st.booleans()), max_size=60), st.integers(1, 4))
def test_the_tenants_last_learned_of_are_remembered_and_no_more(steps: list[tuple[bytes, bool]], most: int) -> None:
    known: PerTenant[int] = PerTenant(most)
    expected: dict[bytes, int] = {}
    for number, (tenant, learns) in enumerate(steps):
        expected.pop(tenant, None)
        if learns:
            known.put(tenant, number)
            expected[tenant] = number
        else:
            known.forget(tenant)
        while len(expected) > most:
            del expected[next(iter(expected))]
        assert {name: known.get(name) for name in expected} == expected
        assert len(known) == len(expected)
