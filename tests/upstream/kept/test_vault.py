from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from upstream.kept.vault import Vault

_VAULT = Vault("a secret of the tests")


@given(st.binary(max_size=2000), st.text())
def test_what_is_sealed_opens_again_in_every_server_with_the_secret(data: bytes, name: str) -> None:
    assert Vault("a secret of the tests").open(name, _VAULT.seal(name, data)) == data


@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(1, 255))
def test_what_was_changed_does_not_open(data: bytes, at: int, flip: int) -> None:
    sealed = bytearray(_VAULT.seal("name", data))
    sealed[at % len(sealed)] ^= flip

    assert _VAULT.open("name", bytes(sealed)) is None


def test_it_opens_under_its_own_name_and_with_its_own_secret_only() -> None:
    sealed = _VAULT.seal("name", b"content")

    assert _VAULT.open("another", sealed) is None
    assert Vault("another secret").open("name", sealed) is None
    assert _VAULT.open("name", b"") is None


def test_a_seal_tells_nothing_of_its_content() -> None:
    content = b"content " * 100
    first, second = _VAULT.seal("name", content), _VAULT.seal("name", content)

    assert first != second
    assert b"content" not in first
    assert len(first) < len(content) / 4


def test_names_tell_their_parts_apart_and_belong_to_the_secret() -> None:
    names = {_VAULT.name(b"ab", b"c"), _VAULT.name(b"a", b"bc"), _VAULT.name(b"abc"), Vault("x").name(b"abc")}

    assert len(names) == 4
    assert _VAULT.name(b"ab", b"c") == Vault("a secret of the tests").name(b"ab", b"c")
