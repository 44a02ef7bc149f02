"""The links of a sidecar: what the pool decides, done to sockets."""

from __future__ import annotations

import asyncio
import random
from time import monotonic
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from proxy import dialect
from proxy.gates import SWITCHING, Gates
from proxy.handshake import handshake_headers, websocket_url
from proxy.headers import retry_after
from proxy.learned import Learned
from proxy.link import GOING_AWAY, Link
from proxy.pool import Dial, NoSlot, Pool, Slot
from proxy.trust import Trust
from wire.errors import UNAUTHORIZED
from wire.extensions import APPEND, CONTEXT, ENVELOPE, FEATURES_HEADER, NONCE_HEADER, features, nonce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.settings import ProxySettings
    from proxy.tasks import Tasks
    from state.heads import Head

AGE_JITTER = 0.1
"""Part of a link's age by which it may retire earlier."""
MAX_MESSAGE = 256 * 1024 * 1024
"""Bytes of a message from the upstream or a client's WebSocket; a larger one ends the connection."""
_WINDOW_BITS = 15
_NO_FAULT = frozenset({"drain", "too_large"})
"""Ends of links that say nothing of how well the upstream is."""
_UNCONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


class NoLinkError(Exception):
    """No link for this turn; `reason` is the turn's reason for going by HTTP."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Links:
    """Opens, lends, takes back and ends links."""

    def __init__(
        self,
        settings: ProxySettings,
        session: aiohttp.ClientSession,
        tasks: Tasks,
        *,
        on_end: Callable[[str], None],
        on_dial: Callable[[str], None],
    ) -> None:
        self.dialect = dialect.of(settings.upstream, settings.upstream_dialect)
        self.pool = Pool(settings.max_links, settings.link_max_age)
        self._settings = settings
        self._session = session
        self._tasks = tasks
        self._on_end = on_end
        self._on_dial = on_dial
        self._links: dict[int, Link] = {}
        self.trust = Trust()
        self.learned = Learned()
        self.gates = Gates(random.random)
        self._closing = False

    def answered(self, tenant: bytes, status: int, since: float, headers: Mapping[str, str] | None = None) -> str:
        """Note the answer to a handshake of the tenant's, and say what it means to a turn (`proxy.gates`)."""
        if status == UNAUTHORIZED:
            self.unauthorized(tenant)
        return self.gates.answered(tenant, status, since, monotonic(), retry_after(headers or {}))

    def unauthorized(self, tenant: bytes) -> None:
        """The tenant's credentials are taken no longer: links that were opened with them end."""
        for slot in self.pool.withdraw(tenant, monotonic()):
            self._end_slot(slot, "unauthorized")

    def lost(self, link: Link) -> None:
        """Note that a link died with a turn on it."""
        if link.ended not in _NO_FAULT:
            self.gates.lost(link.slot.tenant, link.slot.last_used, monotonic())

    def reason_against(self, head: Head) -> str:
        """See `proxy.plan.Places`."""
        return self.pool.reason_against(head, monotonic())

    def warm(self, tenant: bytes) -> bool:
        """See `proxy.plan.Places`."""
        return any(slot.fresh and slot.tenant == tenant for slot in self.pool)

    async def acquire(self, tenant: bytes, want: int | None, headers: Mapping[str, str], query: str = "") -> Link:
        """A link for one turn, to be given back by `release`. Raises `NoLinkError`.

        `headers` and `query` are those of the handshake, should one be needed.

        Up to the first await this is one step: what a plan found true still is.
        """
        now = monotonic()
        if against := self.gates.against_links(tenant, now):
            raise NoLinkError(against)
        found = self.pool.acquire(tenant, want, now, self.gates.against_dial(tenant, now))
        if isinstance(found, NoSlot):
            raise NoLinkError(found.reason)
        self.gates.lent(tenant, now)
        if isinstance(found, Dial):
            if found.instead is not None:
                self._end_slot(found.instead, "retired")
            self.gates.dialled(tenant, now)
            link = await self._dial(found.slot, headers, query)
            self.pool.claim(found.slot, monotonic())
        else:
            link = self._links[found.slot.id]
            await link.checked(now, self._settings.ping_interval)
        self._keep_spare(tenant, headers, query)
        return link

    def release(self, link: Link, latest: Head | None) -> None:
        """Take a link back after a turn whose terminal event was read."""
        link.finish()
        self.gates.served(link.slot.tenant)
        if not link.ended:
            self.pool.release(link.slot, latest, monotonic())

    async def _dial(self, slot: Slot, headers: Mapping[str, str], query: str) -> Link:
        """Open a link; `gates.dialled` came before. `slot.born` is when."""
        link: Link | None = None
        outcome, reason = "given_up", ""
        try:
            link = await self._open(slot, headers, query)
            outcome = "opened"
            self.answered(slot.tenant, SWITCHING, slot.born)
        except aiohttp.WSServerHandshakeError as error:
            outcome, reason = "refused", self.answered(slot.tenant, error.status, slot.born, error.headers)
        except _UNCONNECTED:
            outcome, reason = "unreachable", self.gates.unreachable(slot.born, monotonic())
        except (OSError, aiohttp.ClientError, TimeoutError):
            outcome, reason = "unanswered", self.gates.unanswered(slot.tenant, slot.born, monotonic())
        finally:
            self.gates.settled()
            self._on_dial(outcome)
            if link is None:
                self.pool.end(slot, "aborted")
        if link is None:
            raise NoLinkError(reason)
        return link

    async def _open(self, slot: Slot, headers: Mapping[str, str], query: str) -> Link:
        async with asyncio.timeout(self._settings.dial_timeout):
            socket = await self._session.ws_connect(
                URL(websocket_url(self._settings.upstream, query), encoded=True),
                headers=headers,
                autoping=False,
                compress=_WINDOW_BITS if self._settings.link_compression == "on" else 0,
                max_msg_size=MAX_MESSAGE,
                decode_text=False,
            )
        told = handshake_headers(socket)
        offered = features(told.get(FEATURES_HEADER))
        if offered:
            self.dialect = dialect.DELTAWIRE
        elif self.dialect is dialect.DELTAWIRE:
            # Another kind of server has taken its place.
            self.dialect = dialect.of(self._settings.upstream, self._settings.upstream_dialect)
        appends = APPEND in offered and self._settings.append == "auto"
        bound = nonce(told.get(NONCE_HEADER)) if CONTEXT in offered else b""
        link = Link(slot, socket, envelope=ENVELOPE in offered, appends=appends, nonce=bound, on_end=self._ended)
        self._links[slot.id] = link
        share = random.uniform(1 - AGE_JITTER, 1)  # noqa: S311 - spreads load, keeps no secret
        self.pool.opened(slot, monotonic(), max_age=self.dialect.max_age, share=share)
        self._tasks.spawn(link.read(), f"link {slot.id} reader")
        link.pings = self._tasks.spawn(link.keep_alive(self._settings.ping_interval), f"link {slot.id} pings")
        if self._closing:
            link.end("drain")
        return link

    def _keep_spare(self, tenant: bytes, headers: Mapping[str, str], query: str) -> None:
        now = monotonic()
        if self._closing or not self.gates.spares(tenant, now):
            return
        if (slot := self.pool.spare(tenant, now)) is not None:
            self.gates.dialled(tenant, now)
            self._tasks.spawn(self._dial_spare(slot, headers, query), f"link {slot.id} dial")

    async def _dial_spare(self, slot: Slot, headers: Mapping[str, str], query: str) -> None:
        try:
            await self._dial(slot, headers, query)
        except NoLinkError:
            return

    def _ended(self, link: Link, cause: str) -> None:
        self._links.pop(link.slot.id, None)
        if link.pings is not None:
            link.pings.cancel()
        self.pool.end(link.slot, cause)
        self._on_end(cause)
        if not self._closing:
            self._tasks.spawn(link.close(GOING_AWAY), f"link {link.slot.id} close")

    def _end_slot(self, slot: Slot, cause: str) -> None:
        if (link := self._links.get(slot.id)) is not None:
            link.end(cause)

    async def maintain(self, interval: float) -> None:
        """Close what is due, every `interval` seconds, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            for slot, cause in self.pool.due(monotonic()):
                self._end_slot(slot, cause)

    async def close(self) -> None:
        """End all links with 1001."""
        self._closing = True
        links = list(self._links.values())
        for link in links:
            link.end("drain")
        await asyncio.gather(*(link.close(GOING_AWAY) for link in links))
