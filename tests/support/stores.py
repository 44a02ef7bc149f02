"""Stores of heads on a Redis of either kind, and servers that help nobody."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import fakeredis
from redis.asyncio import Redis
from redis.exceptions import RedisError

from state.digest import SIZE
from state.envelope import Envelope
from state.heads import AnswerItem, Head
from state.redis_guard import Connected, RedisGuard
from state.redis_store import RedisHeads
from tests.support import fetch
from tests.support.missing import missing
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENOUGH = 20.0
"""Seconds that no working operation needs, on however busy a machine."""
TTL = 600.0
_NUMBERS = itertools.count(1)


def digest() -> bytes:
    """One that no other has."""
    return next(_NUMBERS).to_bytes(SIZE, "big")


def a_head(**changes: Any) -> Head:
    """A head like no other."""
    made = Head(
        tenant=b"t" * SIZE,
        response_id=f"resp_{next(_NUMBERS)}",
        stored=True,
        envelope=Envelope((("model", digest()),)),
        base_count=1,
        base=digest(),
        chain=digest(),
        answer=(AnswerItem((digest(), digest()), digest()), AnswerItem((digest(),))),
        link=3,
    )
    return replace(made, **changes)


def heads_on(url: str, *, ttl: float = TTL, timeout: float = ENOUGH, **options: Any) -> RedisHeads:
    """A store on `url`; `options` are the guard's."""
    return RedisHeads(RedisGuard(url, timeout=timeout, **options), ttl=ttl)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Shared:
    """One Redis, and as many stores on it as a test opens."""

    url: str
    raw: Redis
    fake: fakeredis.FakeServer | None = None
    stop: Callable[[], None] = lambda: None
    start: Callable[[], None] = lambda: None
    errors: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    opened: list[RedisHeads] = field(default_factory=list)

    def open(self, **options: Any) -> RedisHeads:
        settings: dict[str, Any] = {"clock": self.clock, "on_error": self.errors.append} | options
        if self.fake is not None:
            server = self.fake
            settings["connect"] = lambda *_: Connected(fakeredis.FakeAsyncRedis(server=server))
        store = heads_on(self.url, **settings)
        self.opened.append(store)
        return store


class Silent:
    """A server that takes connections, and answers when it is told to, the same whatever it was asked."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.asked = asyncio.Event()
        self.requests = 0
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                self.requests += 1
                self.asked.set()
                await self.answers.wait()
                writer.write(b"*1\r\n$1\r\n%d\r\n" % number)
                await writer.drain()
        writer.close()


def started(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A redis-server with these arguments."""
    try:
        binary = fetch.redis_binary()
    except fetch.Unavailable as gone:
        missing(gone.what, gone.how)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([str(binary), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)


def free_cluster_port() -> int:
    """A port whose neighbour 10000 further, the port of the cluster bus, is one as well."""
    return next(port for port in iter(free_port, None) if port < 55536)


async def asked(port: int, *command: str | int, password: str | None = None, until: str = "") -> None:
    """Ask the server on `port` until it is there and its answer holds `until`."""
    async with asyncio.timeout(ENOUGH):
        while True:
            try:
                async with Redis(host="127.0.0.1", port=port, password=password, protocol=2) as client:
                    untyped: Any = client
                    if until in str(await untyped.execute_command(*command)):
                        return
            except RedisError:
                pass
            await asyncio.sleep(0.02)


async def assert_works(url: str) -> None:
    """Stores on `url`, each a new one, save, find and forget without trouble."""
    errors: list[str] = []
    head = a_head(other_chain=digest())
    reference = head.answer[0].reference
    assert reference is not None
    for step in ("save", "read", "forget"):
        store = heads_on(url, on_error=errors.append)
        if step == "save":
            await store.save(head)
        elif step == "read":
            assert await store.load(head.tenant, [digest(), head.chain]) is not None
            assert len(await store.references(head.tenant, [digest(), reference])) == 1
        else:
            await store.forget(head)
            assert await store.load(head.tenant, [head.chain]) is None
        await store.close()
    assert errors == []
