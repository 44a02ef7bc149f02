"""Keyed digests: what is remembered of content between requests, useless without the secret.

Every digest is 16 bytes of BLAKE2b (RFC 7693) under a key made from the secret, with one personalisation per use,
so that a digest of one kind never equals one of another.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Protocol, Self, final

from state.canon import canonical

SIZE: Final = 16
EMPTY: Final = bytes(SIZE)

_LENGTH: Final = 8  # bytes of a length prefix


class Hasher(Protocol):
    """A digest in the making: feed it, fork it, read it at any point."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Append bytes."""

    def copy(self) -> Self:
        """An independent hasher of the same bytes so far."""

    def digest(self) -> bytes:
        """16 bytes that stand for the bytes so far; more may follow."""


@final
class Keyed:
    """Digests under one secret (any length but none: ValueError). The secret itself is not kept."""

    __slots__ = ("_any", "_chain", "_item", "_key", "_name", "_prefix", "_tenant")

    def __init__(self, secret: bytes) -> None:
        if not secret:
            raise ValueError("a secret is needed")
        self._key = hashlib.blake2b(secret, digest_size=hashlib.blake2b.MAX_KEY_SIZE, person=b"deltawire key").digest()
        self._any = self._start(b"any")
        self._item = self._start(b"item")
        self._name = self._start(b"name")
        self._chain = self._start(b"chain")
        self._prefix = self._start(b"prefix")
        self._tenant = self._start(b"tenant")

    def __repr__(self) -> str:
        return "Keyed()"

    def _start(self, use: bytes) -> hashlib.blake2b:
        return hashlib.blake2b(digest_size=SIZE, key=self._key, person=b"dw:" + use)

    def digest(self, raw: bytes, *, person: bytes = b"") -> bytes:
        """16 bytes for any bytes; `person` (up to 12 bytes) keeps one use apart from another. ValueError if longer."""
        hasher = self._start(b"." + person) if person else self._any.copy()
        hasher.update(raw)
        return hasher.digest()

    def item(self, raw: bytes) -> bytes:
        """16 bytes for one raw item: the same for all items that are equal (`state.canon`)."""
        return self.form(canonical(raw))

    def form(self, canonical_form: bytes) -> bytes:
        """16 bytes for one item whose canonical form is already there."""
        hasher = self._item.copy()
        hasher.update(canonical_form)
        return hasher.digest()

    def name(self, text: str) -> bytes:
        """16 bytes for a name, such as a response id or a cache key."""
        hasher = self._name.copy()
        hasher.update(text.encode("utf-8", "surrogatepass"))
        return hasher.digest()

    def chain(self, previous: bytes, item: bytes) -> bytes:
        """16 bytes for a sequence of items: that of the items before (`EMPTY` for none) and the digest of the next.

        Raises ValueError when one of the two is no digest.
        """
        if len(previous) != SIZE or len(item) != SIZE:
            raise ValueError("a chain is made of digests")
        hasher = self._chain.copy()
        hasher.update(previous)
        hasher.update(item)
        return hasher.digest()

    def veiled(self, name: bytes, value: bytes) -> bytes:
        """1 to 64 bytes hidden under the secret and a name that no other value has; twice, and they are bare again."""
        pad = hashlib.blake2b(name, digest_size=len(value), key=self._key, person=b"dw:veil").digest()
        return bytes(one ^ other for one, other in zip(value, pad, strict=True))

    def prefix_hasher(self) -> Hasher:
        """A hasher for a growing raw prefix; a copy taken at each length costs nothing of what came before."""
        return self._prefix.copy()

    def tenant(self, parts: Sequence[bytes]) -> bytes:
        """16 bytes for a sequence of parts: other parts, another order or another division make another digest."""
        hasher = self._tenant.copy()
        for part in parts:
            hasher.update(len(part).to_bytes(_LENGTH, "big"))
            hasher.update(part)
        return hasher.digest()
