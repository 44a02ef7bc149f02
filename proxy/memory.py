"""What this sidecar knows of conversations: the index in memory, and Redis behind it where there is one."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from state.digest import Keyed
from state.envelope import Envelope, EnvelopeReader
from state.heads import Head, HeadIndex
from state.match import Match, Matcher, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from proxy.settings import ProxySettings
    from proxy.tasks import Tasks
    from state.redis_store import RedisHeads


class Memory:
    """Reads turns against what is known, and takes in what they leave."""

    def __init__(self, settings: ProxySettings, tasks: Tasks, *, on_error: Callable[[str], None]) -> None:
        self.keyed = Keyed(settings.secret or secrets.token_bytes(32))
        self.index = HeadIndex(settings.max_state)
        self._envelopes = EnvelopeReader(self.keyed)
        self._matcher = Matcher(self.keyed, self.index, lenient=settings.echo == "lenient")
        self._tasks = tasks
        self._shared: RedisHeads | None = None
        if settings.state != "memory":
            self._shared = _shared(settings, on_error)

    def tenant(self, parts: Sequence[bytes]) -> bytes:
        """The tenant's digest."""
        return self.keyed.tenant(parts)

    def envelope(self, members: Mapping[str, bytes]) -> Envelope:
        """The envelope of a body. Raises `Inexact`."""
        return self._envelopes.read(members)

    async def read(self, tenant: bytes, raw_input: bytes, *, stored: bool) -> Reading:
        """The reading of an input. Raises `Malformed`.

        Shared state is asked only where it can help: for ids that are unknown here, and when the last answer that
        the input holds is no head here. It only knows heads of stored responses.
        """
        reading = self._matcher.read(tenant, raw_input)
        if self._shared is None or not stored:
            return reading
        if reading.unknown:
            found = await self._shared.references(tenant, reading.unknown)
            for reference, digest in found.items():
                self.index.refer(tenant, reference, digest)
            if found:
                reading = self._matcher.read(tenant, raw_input)
        await self._extend(tenant, reading, self._shared)
        return reading

    async def _extend(self, tenant: bytes, reading: Reading, shared: RedisHeads) -> None:
        best = min((len(match.new) for match in reading.matches), default=None)
        missing = [found for found in reading.boundaries if best is None or len(found.new) < best]
        if not missing:
            return
        head = await shared.load(tenant, [boundary.chain for boundary in missing])
        if head is None:
            return
        place = next(found for found in missing if found.chain in head.chains)
        self.index.add(head)
        reading.matches.insert(0, Match(head, place.new, forms=place.forms))

    @contextmanager
    def leased(self, head: Head | None) -> Iterator[None]:
        """Keep a head from eviction meanwhile."""
        if head is None:
            yield
            return
        self.index.lease(head)
        try:
            yield
        finally:
            self.index.release(head)

    def add(self, head: Head) -> None:
        """Take in the head of a completed turn."""
        self.index.add(head)
        if self._shared is not None and head.stored:
            self._tasks.spawn(self._shared.save(head), "save head")

    def drop(self, head: Head) -> None:
        """Forget a head that the upstream no longer continues."""
        self.index.drop(head)
        if self._shared is not None and head.stored:
            self._tasks.spawn(self._shared.forget(head), "forget head")

    async def close(self) -> None:
        """Close what is shared."""
        if self._shared is not None:
            await self._shared.close()


def _shared(settings: ProxySettings, on_error: Callable[[str], None]) -> RedisHeads:
    from state.redis_guard import RedisGuard  # noqa: PLC0415 - half a second that a sidecar without Redis does not pay
    from state.redis_store import RedisHeads  # noqa: PLC0415 - of use with the former only

    return RedisHeads(RedisGuard(settings.state, on_error=on_error), ttl=settings.state_ttl)
