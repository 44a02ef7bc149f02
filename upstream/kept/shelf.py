"""How stored responses lie in Redis: the keys, what is written under them, and how it reads.

`deltawire:{OWNER}:response:NAME` is a record, `deltawire:{OWNER}:log:LOG` a hash of turns by number,
`deltawire:{OWNER}:item:NAME` says where an item is, `deltawire:{OWNER}:fork:LOG:COUNT` that others go on from there.
The braces keep an owner in one slot of a Cluster. Names are keyed digests, contents are sealed (upstream.kept.vault).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from upstream.kept.stored_form import decode_record, decode_turn, encode_record, encode_turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.redis_guard import Command
    from upstream.kept.lineage import Place
    from upstream.kept.store import Stored
    from upstream.kept.stored_form import Record, Turn
    from upstream.kept.vault import Vault
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context

LOG: Final = 16
"""Bytes of the name of a log."""
_NAME: Final = 16


class Pointer(NamedTuple):
    """Where an item is: in which response, in which turn of which log, and there at which place."""

    response: str
    """The key of the response."""
    log: str
    """The key of the log."""
    number: int
    at: int


class Shelf:
    """What the vault's secret and `ttl` (in milliseconds) make of responses."""

    def __init__(self, vault: Vault, ttl: int) -> None:
        self._vault, self._ttl = vault, ttl

    def response(self, owner: bytes, response_id: str) -> str:
        """The key of a response."""
        return _key(owner, "response", self._vault.name(b"response", response_id.encode(errors="replace")))

    def item(self, owner: bytes, item_id: str) -> str:
        """The key of an item."""
        return _key(owner, "item", self._vault.name(b"item", item_id.encode(errors="replace")))

    def log(self, owner: bytes, log: bytes) -> str:
        """The key of a log."""
        return _key(owner, "log", log)

    def fork(self, owner: bytes, log: bytes, count: int) -> str:
        """The key that is there when another log goes on after so many turns of this one."""
        return f"{_key(owner, 'fork', log)}:{count}"

    def kept(self, stored: Stored, place: Place) -> list[Command]:
        """What writes a response. The second command is answered by how many turns its log has then."""
        owner, (log, count) = stored.owner, place.path[-1]
        key, response = self.log(owner, log), self.response(owner, stored.id)
        commands: list[Command] = [
            ("HSET", key, count - 1, self._vault.seal(key, encode_turn(stored, whole=place.whole))),
            ("HLEN", key),
            ("SET", response, self._vault.seal(response, encode_record(stored, place.path)), "PX", self._ttl),
            *(("PEXPIRE", self.log(owner, other), self._ttl) for other, _ in place.path),
        ]
        if place.forks is not None:
            commands.append(("SET", self.fork(owner, *place.forks), 1, "PX", self._ttl))
        name = self._vault.name(b"response", stored.id.encode(errors="replace"))
        for at, item in enumerate((*stored.input, *stored.output)):
            if item.id is not None:
                pointer = name + log + (count - 1).to_bytes(4, "big") + at.to_bytes(4, "big")
                commands.append(("SET", self.item(owner, item.id), pointer, "PX", self._ttl))
        return commands

    def pointer(self, owner: bytes, value: bytes) -> Pointer:
        """What stands under the key of an item."""
        name, log, numbers = value[:_NAME], value[_NAME : _NAME + LOG], value[_NAME + LOG :]
        number, at = int.from_bytes(numbers[:4], "big"), int.from_bytes(numbers[4:], "big")
        return Pointer(_key(owner, "response", name), self.log(owner, log), number, at)

    def record(self, key: str, value: bytes | None) -> Record | None:
        """What stands under the key of a response; None when that is nothing of ours."""
        data = self._vault.open(key, value) if value is not None else None
        try:
            return decode_record(data) if data is not None else None
        except msgspec.DecodeError:  # written by a server of another version
            return None

    def turn(self, key: str, value: bytes | None) -> Turn | None:
        """What stands in a log; None when that is nothing of ours."""
        data = self._vault.open(key, value) if value is not None else None
        try:
            return decode_turn(data) if data is not None else None
        except msgspec.DecodeError:
            return None

    def items(self, turns: Mapping[tuple[str, int], bytes | None], empty: Context) -> dict[tuple[str, int], list[Item]]:
        """What stands in these places of logs, read for conversations that begin with `empty`."""
        read = {place: self.turn(place[0], value) for place, value in turns.items()}
        return {place: turn.items(empty) for place, turn in read.items() if turn is not None}


def _key(owner: bytes, kind: str, name: bytes) -> str:
    return f"deltawire:{{{owner.hex()}}}:{kind}:{name.hex()}"
