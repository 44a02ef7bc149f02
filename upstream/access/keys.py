"""API keys: how they are made, how a file of them reads, and whether a bearer is one of them.

A key is `sk-dw-ID-SECRET`. The ID is public: it finds the entry and salts the hash. The secret is 256 random bits, so a
fast hash is as safe as a slow one: there is no dictionary to try. At rest there is only the hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHAPE = re.compile(r"sk-dw-([0-9a-f]{16})-[A-Za-z0-9_-]{43}")
_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)
_PERSON = b"deltawire key 1"
_ID_BYTES, _SECRET_BYTES, _HASH_BYTES = 8, 32, 32
_MAX_RATE = 10**12


class BadKeysError(ValueError):
    """A file of keys that cannot be used. The message names the place and quotes no value."""


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: whose key it is and what it may do. No models means all; no rate means no limit."""

    name: str
    id: str
    hash: str
    models: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def may_use(self, model: str) -> bool:
        """Whether the key's list of models holds this one."""
        return not self.models or model in self.models


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A new key, which is nowhere else, and the entry that admits it."""

    key: str = field(repr=False)
    entry: Key


def make(name: str) -> Made:
    """A new random key."""
    key_id = secrets.token_bytes(_ID_BYTES).hex()
    key = f"sk-dw-{key_id}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    return Made(key, Key(name, key_id, _digest(key, key_id)))


def shown(name: str, *, as_json: bool = False) -> list[str]:
    """Lines that tell a user of a new key: the key itself, and the entry to put into a file."""
    made = make(name)
    return [f"key: {made.key}", "", *(entry_json(made.entry) if as_json else entry_toml(made.entry)).splitlines()]


def entry_toml(entry: Key) -> str:
    """The entry as it stands in a TOML file, whose strings may be written as JSON's are."""
    text = [f"{member} = {msgspec.json.encode(getattr(entry, member)).decode()}" for member in ("name", "id", "hash")]
    return "\n".join(["[[keys]]", *text, ""])


def entry_json(entry: Key) -> str:
    """The entry as an element of a JSON file's `keys`."""
    return msgspec.json.encode({"name": entry.name, "id": entry.id, "hash": entry.hash}).decode() + "\n"


class Keyring:
    """All keys of a server."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = {key.id: key for key in keys}
        # What an unknown id is compared with, so that it takes the time that a known one takes.
        self._nobody = Key("", "0" * 2 * _ID_BYTES, "0" * 2 * _HASH_BYTES)

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key_id: str) -> Key | None:
        """The entry of an id."""
        return self._keys.get(key_id)

    def find(self, authorization: str) -> Key:
        """The entry of an `Authorization` header. Raises `ApiError` 401, the same for every wrong key."""
        if not authorization:
            raise _refused("You didn't provide an API key. Send it as 'Authorization: Bearer YOUR_KEY'.", None)
        bearer = _BEARER.fullmatch(authorization)
        shape = _SHAPE.fullmatch(bearer[1]) if bearer is not None else None
        if bearer is not None and shape is not None:
            entry = self._keys.get(shape[1])
            same = hmac.compare_digest(_digest(bearer[1], shape[1]), (entry or self._nobody).hash)
            if same and entry is not None:
                return entry
        raise incorrect()


def read_keys(text: str) -> Keyring:
    """The keys of a file: JSON when it begins with a brace, else TOML. Raises `BadKeysError`."""
    try:
        value: Any = msgspec.json.decode(text) if text.lstrip()[:1] == "{" else tomllib.loads(text)
    except (msgspec.DecodeError, ValueError, RecursionError):  # their texts may quote the file
        raise BadKeysError("neither JSON nor TOML") from None
    try:
        keys = msgspec.convert(value, _File).keys
    except msgspec.ValidationError as error:
        raise BadKeysError(str(error)) from None
    for index, key in enumerate(keys):
        if fault := _fault(key):
            raise BadKeysError(f"keys[{index}]: {fault}")
    for member in ("id", "name"):
        if len({getattr(key, member) for key in keys}) < len(keys):
            raise BadKeysError(f"two keys have the same {member}")
    return Keyring(keys)


def incorrect() -> ApiError:
    """The key is not, or no longer, one of this server's."""
    return _refused("Incorrect API key provided.", "invalid_api_key")


def _fault(key: Key) -> str:
    if not key.name:
        return "a name is needed"
    if re.fullmatch(f"[0-9a-f]{{{2 * _ID_BYTES}}}", key.id) is None:
        return f"id has to be {2 * _ID_BYTES} hexadecimal digits"
    if re.fullmatch(f"[0-9a-f]{{{2 * _HASH_BYTES}}}", key.hash) is None:
        return f"hash has to be {2 * _HASH_BYTES} hexadecimal digits"
    rates = (key.requests_per_minute, key.tokens_per_minute)
    if any(rate is not None and not 0 < rate <= _MAX_RATE for rate in rates):
        return "a rate has to be a positive number"
    return ""


def _digest(key: str, key_id: str) -> str:
    salt = bytes.fromhex(key_id)
    return hashlib.blake2b(key.encode(), digest_size=_HASH_BYTES, salt=salt, person=_PERSON).hexdigest()


def _refused(message: str, code: str | None) -> ApiError:
    return ApiError(status=401, message=message, code=code, headers={"www-authenticate": "Bearer"})
