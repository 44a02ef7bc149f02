"""Stored responses in Redis, behind those in memory: they outlive the process, and other servers find them.

Writing is settling: it is queued, written in the background, and given up and counted when Redis stays away. Reading
has a short deadline. Whatever becomes of Redis, no turn fails that memory alone would have answered.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from state.redis_guard import RedisGuard
from upstream.kept.lineage import Lineage, Path, Place
from upstream.kept.shelf import LOG, Shelf
from upstream.kept.stored_form import stored_from, told_from
from upstream.settling.backlog import PORTION_BYTES, Backlog
from upstream.settling.writer import Writer
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.redis_guard import Command, Connected
    from state.redis_url import RedisAddress
    from telemetry.server_metrics import ServerMetrics
    from upstream.kept.store import Stored
    from upstream.kept.stored_form import Record, Turn
    from upstream.kept.vault import Vault
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context

_READ: Final = 0.5
_WRITE: Final = 2.0
"""Seconds that one exchange with Redis may take."""
_MOST: Final = 4096
_MOST_BYTES: Final = 64 * 1024 * 1024
_MAX_ITEMS: Final = 1024
_COMMANDS: Final = 1000
"""At once: a response may have more items with names than Redis writes within its time."""
_ATTEMPTS: Final = 4
_log = structlog.get_logger("upstream")


class UnreachableError(Exception):
    """Redis did not take what was to be written."""


class _Keep(NamedTuple):
    stored: Stored
    place: Place
    size: int


class _Forget(NamedTuple):
    owner: bytes
    response_id: str
    path: Path | None


class Library:
    """Those of all owners. `ttl` is in seconds. Raises `ValueError` for a URL that names no Redis."""

    def __init__(
        self,
        url: str,
        *,
        vault: Vault,
        ttl: float,
        metrics: ServerMetrics,
        connect: Callable[[RedisAddress, float], Connected] | None = None,
    ) -> None:
        self._shelf = Shelf(vault, max(1, round(ttl * 1000)))
        self._metrics = metrics
        self._reads = RedisGuard(url, on_error=_failed, timeout=_READ, connect=connect)
        # The writer has pauses of its own.
        self._writes = RedisGuard(url, on_error=_failed, timeout=_WRITE, cooldown=0, connect=connect)
        self._lineage = Lineage(lambda: os.urandom(LOG))
        self._leaving: Counter[tuple[bytes, str]] = Counter()
        self._failed: Counter[str] = Counter()
        backlog: Backlog[_Keep | _Forget] = Backlog(most=_MOST, most_bytes=_MOST_BYTES)
        self.writer = Writer("store", self._write, backlog, metrics)

    def keep(self, stored: Stored) -> None:
        """Write a response, in the background."""
        place = self._lineage.add(stored.id, stored.parent)
        size = len(stored.response) + sum(len(item.raw) for item in (*stored.input, *stored.output))
        size += stored.context.size if place.whole else 0
        if self.writer.add(_Keep(stored, place, size), size, optional=True):
            self._lineage.forget()

    def forget(self, response_id: str, owner: bytes) -> None:
        """Delete a response, in the background; from now on it is not found any more."""
        self._leaving[owner, response_id] += 1
        self.writer.add(_Forget(owner, response_id, self._lineage.path(response_id)), len(response_id))

    async def find(self, response_id: str, owner: bytes, empty: Context) -> Stored | None:
        """The response, if Redis has it and it is this owner's, its conversation folded anew from `empty`."""
        found: Stored | None = None
        record = await self._record(response_id, owner)
        turns = await self._turns(owner, record.path) if record is not None else []
        if record is not None and turns:
            try:
                found = await asyncio.to_thread(stored_from, response_id, owner, record, turns, empty)
            except ApiError:  # the turns do not follow each other
                _log.warning("store_unreadable", response_id=response_id)
        return self._found(found, record)

    async def told(self, response_id: str, owner: bytes) -> Stored | None:
        """The response without its conversation: enough to tell of it, not to continue it."""
        found: Stored | None = None
        record = await self._record(response_id, owner)
        if record is not None:
            log, count = record.path[-1]
            key = self._shelf.log(owner, log)
            (value,) = await self._read([("HGET", key, count - 1)]) or [None]
            turn = self._shelf.turn(key, value)
            found = told_from(response_id, owner, record, turn) if turn is not None else None
        return self._found(found, record)

    async def items(self, ids: Sequence[str], owner: bytes, empty: Context) -> dict[str, Item]:
        """Those items of this owner's responses that Redis has; at most 1024 are looked up."""
        asked = ids[:_MAX_ITEMS]
        (values,) = await self._read([("MGET", *(self._shelf.item(owner, name) for name in asked))]) or [()]
        named = zip(asked, values, strict=False)
        pointers = {name: self._shelf.pointer(owner, value) for name, value in named if value is not None}
        # Many items may lie in one turn, however long that is: it is asked for, and read, once.
        responses = list(dict.fromkeys(pointer.response for pointer in pointers.values()))
        places = list(dict.fromkeys((pointer.log, pointer.number) for pointer in pointers.values()))
        commands: list[Command] = [*(("EXISTS", key) for key in responses), *(("HGET", *place) for place in places)]
        answers = await self._read(commands) if commands else []
        there = {key for key, exists in zip(responses, answers, strict=False) if exists}
        turns = dict(zip(places, answers[len(responses) :], strict=False))
        lying = await asyncio.to_thread(self._shelf.items, turns, empty)
        found: dict[str, Item] = {}
        for name, pointer in pointers.items():
            items = lying.get((pointer.log, pointer.number), ()) if pointer.response in there else ()
            if pointer.at < len(items) and items[pointer.at].id == name:
                found[name] = items[pointer.at]
        for name in asked:
            self._metrics.store_read("found" if name in found else "absent")
        return found

    async def close(self, patience: float) -> int:
        """Write what waits, for at most so many seconds. How much of it could not be written."""
        left = await self.writer.close(patience)
        await self._reads.close()
        await self._writes.close()
        return left

    async def _read(self, commands: list[Command]) -> list[Any]:
        """The answers; none of them when Redis does not answer."""
        answers = await self._reads.run("read", commands)
        if answers is None:
            self._metrics.store_read("failed")
        return answers or []

    def _found(self, found: Stored | None, record: Record | None) -> Stored | None:
        if found is not None and record is not None:
            self._lineage.learn(found.id, record.path)
        self._metrics.store_read("found" if found is not None else "absent")
        return found

    async def _record(self, response_id: str, owner: bytes) -> Record | None:
        if self._leaving[owner, response_id]:
            return None
        key = self._shelf.response(owner, response_id)
        (value,) = await self._read([("GET", key)]) or [None]
        return self._shelf.record(key, value)

    async def _turns(self, owner: bytes, path: Path) -> list[Turn]:
        """All turns of a path; nothing when one of them is not there."""
        keys = [(self._shelf.log(owner, log), count) for log, count in path]
        answers = await self._read([("HMGET", key, *range(count)) for key, count in keys])
        turns = [
            self._shelf.turn(key, value) for (key, _), values in zip(keys, answers, strict=False) for value in values
        ]
        known = [turn for turn in turns if turn is not None]
        return known if len(known) == len(turns) else []

    async def _write(self, portion: Sequence[_Keep | _Forget]) -> None:
        keeping = [entry for entry in portion if isinstance(entry, _Keep)]
        leaving = [entry for entry in portion if isinstance(entry, _Forget)]
        written = await asyncio.to_thread(lambda: [self._shelf.kept(entry.stored, entry.place) for entry in keeping])
        try:
            answers = await self._asked([command for commands in written for command in commands])
        except UnreachableError:
            if not await self._too_large(keeping):
                raise
            return
        for entry in leaving:
            await self._delete(entry)
        at, broken = 0, []
        for kept, commands in zip(keeping, written, strict=True):
            if answers[at + 1] != kept.place.path[-1][1]:  # Redis has lost the beginning of the log
                broken.append(kept.stored)
            at += len(commands)
        if broken:
            self._lineage.forget()
        for stored in broken:
            if not self._leaving[stored.owner, stored.id]:
                self.keep(stored)
        self._leaving.subtract((entry.owner, entry.response_id) for entry in leaving)
        self._leaving += Counter()  # only what is above zero stays

    async def _too_large(self, failed: Sequence[_Keep]) -> bool:
        """Whether Redis takes all but this: then it is given up, or nothing after it would ever be written."""
        if len(failed) != 1 or failed[0].size <= PORTION_BYTES:
            return False
        response_id, size = failed[0].stored.id, failed[0].size
        self._failed = Counter({response_id: self._failed[response_id] + 1})
        if self._failed[response_id] < _ATTEMPTS or await self._writes.run("write", [("PING",)]) is None:
            return False
        self._lineage.forget()
        self._metrics.given_up("store", 1)
        _log.error("store_too_large", response_id=response_id, bytes=size)
        return True

    async def _delete(self, entry: _Forget) -> None:
        """Forget a response, and its turn unless others go on from there."""
        key, path = self._shelf.response(entry.owner, entry.response_id), entry.path
        if path is None:
            (value,) = await self._asked([("GET", key)])
            record = self._shelf.record(key, value)
            path = record.path if record is not None else ()
        commands: list[Command] = [("DEL", key)]
        if path:
            log, count = path[-1]
            at = self._shelf.log(entry.owner, log)
            follows = [("HEXISTS", at, count), ("EXISTS", self._shelf.fork(entry.owner, log, count))]
            if not any(await self._asked(follows)):
                commands.append(("HDEL", at, count - 1))
        await self._asked(commands)

    async def _asked(self, commands: Sequence[Command]) -> list[Any]:
        answers: list[Any] = []
        for begin in range(0, len(commands), _COMMANDS):
            some = await self._writes.run("write", commands[begin : begin + _COMMANDS])
            if some is None:
                raise UnreachableError
            answers += some
        return answers


def _failed(operation: str) -> None:
    _log.warning("store_failed", operation=operation)
