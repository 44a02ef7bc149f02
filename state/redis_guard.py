"""Redis as something that is never needed: each operation has a short deadline, and after trouble it is left alone.

On trouble of any sort an operation returns nothing and says so once through `on_error`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from state.redis_url import RedisAddress, parse_redis_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_CONCURRENT: Final = 32
"""Operations at once, and so connections."""

Command: TypeAlias = tuple[str | bytes | int, ...]


class Connected(NamedTuple):
    """A client, and the Sentinels that tell it where its server is."""

    client: Redis | RedisCluster
    sentinel: Sentinel | None = None


class RedisGuard:
    """One Redis, Sentinel group or Cluster. Raises ValueError for a URL that names none.

    `timeout` and `cooldown` are in seconds: how long any operation may take, how long Redis is left alone after
    trouble. `on_error` is called with `connect` while Redis has not answered since the last trouble, else with the
    name of the operation.
    """

    def __init__(
        self,
        url: str,
        *,
        on_error: Callable[[str], None],
        timeout: float = 0.15,
        cooldown: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[RedisAddress, float], Connected] | None = None,
    ) -> None:
        self._address = parse_redis_url(url)
        self._client, self._sentinel = (connect or connected)(self._address, timeout)
        self._timeout = timeout
        self._cooldown = cooldown
        self._on_error = on_error
        self._clock = clock
        self._places = asyncio.Semaphore(MAX_CONCURRENT)
        self._answered = False
        self._troubled = False
        self._resume_at = clock()

    def __str__(self) -> str:
        return str(self._address)

    async def run(self, operation: str, commands: Iterable[Command]) -> list[Any] | None:
        """The answers to the commands, sent at once; None while Redis is left alone, late or in trouble."""
        now = self._clock()
        if now < self._resume_at:
            return None
        if self._troubled:
            self._resume_at = now + self._cooldown  # one operation finds out whether it is over
        try:
            async with asyncio.timeout(self._timeout), self._places:
                result = await self._pipeline(commands)
        except Exception:  # noqa: BLE001 - whatever is wrong with Redis or its client, no turn fails for it
            self._resume_at = self._clock() + self._cooldown
            self._troubled = True
            self._on_error(operation if self._answered else "connect")
            self._answered = False
            return None
        self._resume_at = now
        self._troubled = False
        self._answered = True
        return result

    async def close(self) -> None:
        """Close all connections, within the time of one operation."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._client.aclose()
                if self._sentinel is not None:
                    await self._sentinel.aclose()
        except Exception:  # noqa: BLE001 - nothing is left to be done about a connection that does not close
            return

    async def _pipeline(self, commands: Iterable[Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        results: list[Any] = await pipeline.execute()
        return results


def connected(address: RedisAddress, timeout: float) -> Connected:
    """A client that opens its first connection when it is first used, and that never tries anything twice."""
    common: dict[str, Any] = {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # one round trip less than RESP3, and nothing here needs it
        "driver_info": None,
        "ssl": address.tls,
    }
    login: dict[str, Any] = {"username": address.username, "password": address.password, **common}
    login["max_connections"] = 2 * MAX_CONCURRENT  # never what an operation waits for or fails by
    if address.kind == "cluster":
        return Connected(RedisCluster(startup_nodes=[ClusterNode(*host) for host in address.hosts], **login))
    if address.kind == "sentinel":
        sentinel: Any = Sentinel(list(address.hosts), sentinel_kwargs=common)  # type: ignore[no-untyped-call]
        return Connected(sentinel.master_for(address.service, db=address.database, **login), sentinel)
    host, port = address.hosts[0]
    return Connected(Redis(host=host, port=port, db=address.database, **login))
