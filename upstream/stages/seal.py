"""Sealing of reasoning and compactions: the client carries it, only this server reads it (`encrypted_content`)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wire.errors import ApiError, invalid_request

_VERSION = b"\x01"
_NONCE = 12
REASONING = b"deltawire reasoning v1"
COMPACTION = b"deltawire compaction v1"
"""What a blob is for; one of them cannot be passed off as the other."""


class Sealer:
    """AES-256-GCM with a key drawn from `secret`, or a random one that dies with the process.

    Blobs are base64url of version, nonce, ciphertext and tag; two blobs of one text differ.
    """

    def __init__(self, secret: str = "") -> None:
        key = hashlib.sha256(REASONING + secret.encode()).digest() if secret else os.urandom(32)
        self._aead = AESGCM(key)

    def seal(self, text: str, purpose: bytes = REASONING) -> str:
        """A blob that `open` turns back into `text`."""
        nonce = os.urandom(_NONCE)
        sealed = self._aead.encrypt(nonce, text.encode(errors="surrogatepass"), purpose)
        return base64.urlsafe_b64encode(_VERSION + nonce + sealed).decode()

    def open(self, blob: str, *, param: str, purpose: bytes = REASONING) -> str:
        """The sealed text. Raises `ApiError` `invalid_encrypted_content` when the blob is not one of ours."""
        try:
            raw = base64.urlsafe_b64decode(blob.encode("ascii"))
            if raw[:1] != _VERSION:
                raise _unreadable(param)
            return self._aead.decrypt(raw[1 : 1 + _NONCE], raw[1 + _NONCE :], purpose).decode(errors="surrogatepass")
        except (InvalidTag, binascii.Error, ValueError):
            raise _unreadable(param) from None


def _unreadable(param: str) -> ApiError:
    return invalid_request(
        "The encrypted content of an item could not be verified. It was sealed by another server or changed.",
        param=param,
        code="invalid_encrypted_content",
    )
