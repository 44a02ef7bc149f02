"""What leaves the process for a store that others may read: names that tell nothing, contents that are sealed.

All keys are drawn from the server's secret, so servers with the same secret understand each other.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_VERSION: Final = b"\x01"
_NONCE: Final = 12
_NAME: Final = 16
_LEVEL: Final = 3


class Vault:
    """Names are keyed BLAKE2b; contents are compressed (zstd) and sealed (AES-256-GCM).

    Each name has a key of its own, so a content that was put under another name does not open.
    """

    def __init__(self, secret: str) -> None:
        self._naming = _key(secret, b"deltawire names")
        self._sealing = _key(secret, b"deltawire store")

    def name(self, *parts: bytes) -> bytes:
        """A digest that stands for the parts."""
        made = hashlib.blake2b(digest_size=_NAME, key=self._naming)
        for part in parts:
            made.update(len(part).to_bytes(4, "big") + part)
        return made.digest()

    def seal(self, name: str, data: bytes) -> bytes:
        """What `open` turns back into `data`, under the same name only."""
        nonce = os.urandom(_NONCE)
        return _VERSION + nonce + self._aead(name).encrypt(nonce, zstd.compress(data, _LEVEL), None)

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """The data; None when it was not sealed under this name with this secret, or was changed."""
        if sealed[:1] != _VERSION:
            return None
        try:
            return zstd.decompress(self._aead(name).decrypt(sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :], None))
        except (InvalidTag, ValueError):
            return None

    def _aead(self, name: str) -> AESGCM:
        return AESGCM(hashlib.blake2b(name.encode(), digest_size=32, key=self._sealing).digest())


def _key(secret: str, purpose: bytes) -> bytes:
    return hashlib.blake2b(secret.encode(), digest_size=32, person=purpose).digest()
