"""Who a request is from, which models it may name, and how much it may ask for.

Everything else in the server knows an owner only: a digest that this gate gives out, and can tell the key of.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING

from upstream.access.keys import incorrect
from upstream.access.limits import REQUESTS, TOKENS, Bucket, Meter
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from upstream.access.keys import Key, Keyring

_OWNER = 16


class Gate:
    """Without a keyring any credentials are taken, each as an owner of its own, and nothing is limited.

    `limited` is told of each refusal by a limit: `requests` or `tokens`. Gates with the same `secret` know an owner by
    the same digest; without one it is theirs alone.
    """

    def __init__(
        self,
        keyring: Keyring | None = None,
        clock: Callable[[], float] = time.monotonic,
        limited: Callable[[str], None] = lambda _: None,
        secret: str = "",
    ) -> None:
        self._keyring, self._clock, self._limited = keyring, clock, limited
        given = hashlib.blake2b(secret.encode(), digest_size=32, person=b"deltawire owners").digest()
        self._secret = given if secret else os.urandom(32)
        self._ids: dict[bytes, str] = {}
        self._meters: dict[str, Meter] = {}

    def enter(self, authorization: str) -> bytes:
        """The owner of a request with this `Authorization` header. Raises `ApiError` 401."""
        if self._keyring is None:
            return self._digest(authorization)
        key = self._keyring.find(authorization)
        owner = self._digest(key.id)
        if owner not in self._ids:
            self._ids[owner] = key.id
            self._meters[key.id] = Meter(_bucket(key.requests_per_minute), _bucket(key.tokens_per_minute))
        return owner

    def begin(self, owner: bytes) -> None:
        """A request begins. Raises `ApiError`: 401 for a key that is gone, 429 for one that has asked too often."""
        self._take(owner, REQUESTS, 1)

    def permit(self, owner: bytes, model: str) -> None:
        """Raises `ApiError` 404 for a model that is not for this key, as for one that does not exist."""
        key = self._key(owner)
        if key is not None and not key.may_use(model):
            raise no_model(model)

    def spend(self, owner: bytes, tokens: int) -> None:
        """The request is about to be answered. Raises `ApiError` 429 when its input is more than is left."""
        self._take(owner, TOKENS, tokens)

    def spent(self, owner: bytes, tokens: int) -> None:
        """So many tokens were written; they are charged even beyond the limit, and then the next request waits."""
        key_id = self._ids.get(owner)
        if key_id is not None:
            self._meters[key_id] = self._meters[key_id].charge(TOKENS, tokens, self._clock())

    def holder(self, owner: bytes) -> Key | None:
        """The entry of the key that an owner stands for; None without a keyring."""
        return self._keyring.get(self._ids.get(owner, "")) if self._keyring is not None else None

    def visible(self, owner: bytes, models: Iterable[str]) -> list[str]:
        """Those of the models that are for this key."""
        key = self._key(owner)
        return [model for model in models if key is None or key.may_use(model)]

    def headers(self, owner: bytes) -> dict[str, str]:
        """The limits of this key as the API's headers tell them, at this moment."""
        key_id = self._ids.get(owner)
        return self._meters[key_id].headers(self._clock()) if key_id is not None else {}

    def _key(self, owner: bytes) -> Key | None:
        if self._keyring is None:
            return None
        key = self._keyring.get(self._ids.get(owner, ""))
        if key is None:
            raise incorrect()
        return key

    def _take(self, owner: bytes, kind: str, amount: int) -> None:
        key = self._key(owner)
        if key is None:
            return
        try:
            self._meters[key.id] = self._meters[key.id].take(kind, amount, self._clock())
        except ApiError:
            self._limited(kind)
            raise

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=_OWNER, key=self._secret).digest()


def no_model(name: str) -> ApiError:
    """A model that is not there, or not for this key: which of both is not told."""
    return ApiError(
        status=404,
        message=f"The model '{name[:128]}' does not exist or you do not have access to it.",
        param="model",
        code="model_not_found",
    )


def _bucket(per_minute: int | None) -> Bucket | None:
    return Bucket(per_minute) if per_minute is not None else None
