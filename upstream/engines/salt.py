"""What keeps the prefix caches of owners apart in an engine that serves many.

An engine with a shared cache answers sooner when somebody has sent the same beginning before. Under a salt it finds
only what came under the same one; the salt of an owner is a keyed digest, so nobody can ask under another's.
"""

from __future__ import annotations

import hashlib
import secrets

_BYTES = 32
_PERSON = b"prefix-cache"


class Salts:
    """Salts by a secret; an empty one makes a key that lives as long as the process."""

    def __init__(self, secret: str = "") -> None:
        self._key = hashlib.blake2b(secret.encode(), person=_PERSON).digest() if secret else secrets.token_bytes(_BYTES)

    def of(self, owner: bytes) -> str:
        """The salt of this owner: 64 hexadecimal digits, which every engine takes."""
        return hashlib.blake2b(owner, key=self._key, digest_size=_BYTES, person=_PERSON).hexdigest()
