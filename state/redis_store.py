"""Heads in Redis: what lets another process, or this one after a restart, continue a stored response.

Redis is never needed (`state.redis_guard`): in trouble the turn is as if nothing were known.

Keys: `deltawire:{TENANT}:head:CHAIN` holds a record (`state.records`), `deltawire:{TENANT}:item:REFERENCE` the digest
of an item that an id names; all parts are keyed digests in hex. The braces keep a tenant in one slot of a Cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from state.digest import SIZE
from state.records import Unreadable, decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.heads import Head
    from state.redis_guard import Command, RedisGuard

MAX_CHAINS: Final = 16
"""Places of an input that are looked up, from the first of those given."""
MAX_REFERENCES: Final = 1024
"""References that are looked up at once; any beyond stay unknown."""


class RedisHeads:
    """Stored heads in Redis, for all tenants. `ttl`: seconds for which a head is kept after its turn.

    The names of its operations are `read`, `write` and `delete`.
    """

    def __init__(self, redis: RedisGuard, *, ttl: float) -> None:
        self._redis = redis
        self._ttl = max(1, round(ttl * 1000))

    def __repr__(self) -> str:
        return f"<RedisHeads {self._redis}>"

    async def load(self, tenant: bytes, chains: Sequence[bytes]) -> Head | None:
        """The head of the first chain that has one; the longest comes first. At most `MAX_CHAINS` are looked up."""
        asked = chains[:MAX_CHAINS]
        if not asked:
            return None
        keys = [_head_key(tenant, chain) for chain in asked]
        found = await self._values(keys)
        for chain, record in zip(asked, found, strict=False):
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
        found = await self._values(keys, renew=True)
        return {
            name: digest
            for name, digest in zip(asked, found, strict=False)
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
        commands: list[Command] = [("SET", key, value, "PX", self._ttl) for key, value in values.items()]
        await self._redis.run("write", commands)

    async def forget(self, head: Head) -> None:
        """Make a head unknown to all. What its items were stays known a while."""
        if head.stored:
            keys = [_head_key(head.tenant, chain) for chain in head.chains]
            await self._redis.run("delete", [("DEL", *keys)])

    async def close(self) -> None:
        """Close all connections, within the time of one operation."""
        await self._redis.close()

    async def _values(self, keys: Sequence[str], *, renew: bool = False) -> Sequence[bytes | None]:
        renewals: list[Command] = [("PEXPIRE", key, self._ttl) for key in keys] if renew else []
        answers: list[Any] = await self._redis.run("read", [("MGET", *keys), *renewals]) or [()]
        return cast("Sequence[bytes | None]", answers[0])


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
