"""Heads in Redis: what lets another process, or this one after a restart, continue a stored response.

Redis is never needed. Each operation has a short deadline; on trouble of any sort it returns nothing, says so once
through `on_error`, and Redis is left alone for a while. The turn is then as if nothing were known.

Keys: `deltawire:{TENANT}:head:CHAIN` holds a record (`state.records`), `deltawire:{TENANT}:item:REFERENCE` the digest
of an item that an id names; all parts are keyed digests in hex. The braces keep a tenant in one slot of a Cluster.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from state.digest import SIZE
from state.records import Unreadable, decode, encode
from state.redis_url import RedisAddress, parse_redis_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from state.heads import Head


MAX_CHAINS: Final = 16
"""Places of an input that are looked up, from the first of those given."""
MAX_REFERENCES: Final = 1024
"""References that are looked up at once; any beyond stay unknown."""
MAX_CONCURRENT: Final = 32
"""Operations at once, and so connections."""

_T = TypeVar("_T")
_Command: TypeAlias = tuple[str | bytes | int, ...]


class Connected(NamedTuple):
    """A client, and the Sentinels that tell it where its server is."""

    client: Redis | RedisCluster
    sentinel: Sentinel | None = None


class RedisHeads:
    """Stored heads in Redis, for all tenants. Raises ValueError for a URL that names no Redis.

    `ttl`, `timeout` and `cooldown` are in seconds: how long a head is kept after its turn, how long any operation may
    take, how long Redis is left alone after trouble. `on_error` is called with `connect` while Redis has not answered
    since the last trouble, else with `read`, `write` or `delete`.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl: float,
        on_error: Callable[[str], None],
        timeout: float = 0.15,
        cooldown: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[RedisAddress, float], Connected] | None = None,
    ) -> None:
        self._address = parse_redis_url(url)
        self._client, self._sentinel = (connect or connected)(self._address, timeout)
        self._ttl = max(1, round(ttl * 1000))
        self._timeout = timeout
        self._cooldown = cooldown
        self._on_error = on_error
        self._clock = clock
        self._places = asyncio.Semaphore(MAX_CONCURRENT)
        self._answered = False
        self._troubled = False
        self._resume_at = clock()

    def __repr__(self) -> str:
        return f"<RedisHeads {self._address}>"

    async def load(self, tenant: bytes, chains: Sequence[bytes]) -> Head | None:
        """The head of the first chain that has one; the longest comes first. At most `MAX_CHAINS` are looked up."""
        asked = chains[:MAX_CHAINS]
        if not asked:
            return None
        keys = [_head_key(tenant, chain) for chain in asked]
        found = await self._guarded("read", lambda: self._values(keys))
        for chain, record in zip(asked, found or (), strict=False):
            head = _decoded(tenant, record)
            if head is not None and chain in head.chains:
                return head
        return None

    async def references(self, tenant: bytes, references: Sequence[bytes]) -> dict[bytes, bytes]:
        """Digests of the items that these ids name, without those that are not known. What is found lives on."""
        asked = references[:MAX_REFERENCES]
        if not asked:
            return {}
        keys = [_item_key(tenant, name) for name in asked]
        found = await self._guarded("read", lambda: self._values(keys, renew=True))
        return {
            name: digest
            for name, digest in zip(asked, found or (), strict=False)
            if digest is not None and len(digest) == SIZE
        }

    async def save(self, head: Head) -> None:
        """Make a stored head known to all, with the items that its answer's ids name; any other head stays here."""
        try:
            record = encode(head)
        except ValueError:
            return
        values = {_head_key(head.tenant, chain): record for chain in head.chains}
        for item in head.answer:
            if item.reference is not None:
                values[_item_key(head.tenant, item.reference)] = item.digests[0]
        commands: list[_Command] = [("SET", key, value, "PX", self._ttl) for key, value in values.items()]
        await self._guarded("write", lambda: self._pipeline(commands))

    async def forget(self, head: Head) -> None:
        """Make a head unknown to all. What its items were stays known a while."""
        if head.stored:
            keys = [_head_key(head.tenant, chain) for chain in head.chains]
            await self._guarded("delete", lambda: self._pipeline([("DEL", *keys)]))

    async def close(self) -> None:
        """Close all connections, within the time of one operation."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._client.aclose()
                if self._sentinel is not None:
                    await self._sentinel.aclose()
        except Exception:  # noqa: BLE001 - nothing is left to be done about a connection that does not close
            return

    async def _values(self, keys: Sequence[str], *, renew: bool = False) -> Sequence[bytes | None]:
        renewals: list[_Command] = [("PEXPIRE", key, self._ttl) for key in keys] if renew else []
        found, *_ = await self._pipeline([("MGET", *keys), *renewals])
        return cast("Sequence[bytes | None]", found)

    async def _pipeline(self, commands: Iterable[_Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        results: list[Any] = await pipeline.execute()
        return results

    async def _guarded(self, operation: str, work: Callable[[], Awaitable[_T]]) -> _T | None:
        """The result of `work`; None while Redis is left alone, and when it is late or in trouble."""
        now = self._clock()
        if now < self._resume_at:
            return None
        if self._troubled:
            self._resume_at = now + self._cooldown  # one operation finds out whether it is over
        try:
            async with asyncio.timeout(self._timeout), self._places:
                result = await work()
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


def _head_key(tenant: bytes, chain: bytes) -> str:
    return f"deltawire:{{{tenant.hex()}}}:head:{chain.hex()}"


def _item_key(tenant: bytes, reference: bytes) -> str:
    return f"deltawire:{{{tenant.hex()}}}:item:{reference.hex()}"


def _decoded(tenant: bytes, record: bytes | None) -> Head | None:
    if record is None:
        return None
    try:
        return decode(tenant, record)
    except Unreadable:
        return None
