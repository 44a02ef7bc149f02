"""Whether turns get links and links are opened: limits, cooldowns and the breaker, without I/O.

Theory. Between turns and links stand four gates. What a dial or a link brought tells of the upstream or, since key,
query and headers travel with the handshake, of one tenant only; so there is a gate of each kind for each of them.

    gate          whose         a failure is                                        the reason then  shut for
    ------------  ------------  --------------------------------------------------  ---------------  --------------
    NO_WEBSOCKET  a tenant's    an upgrade answered by 400, 404, 405, 426 or 501    `no_websocket`   10 min
    REFUSED       a tenant's    any other answer but 101, or none in time, or the   `dial_failed`    5 s up to 60 s
                                connection ended                                                     or retry-after
    UNREACHABLE   the upstream  no connection could be made                         `dial_failed`    5 s up to 60 s
    BREAKER       a tenant's    a link died with a turn on it; only the third in a  `breaker_open`   30 s up to
                                row shuts it                                                         10 min

NO_WEBSOCKET and BREAKER keep turns off all links, the other two keep links from being opened. A 101 opens the first
two, any answer to a handshake UNREACHABLE, the end of a turn (an error of the upstream's is one) BREAKER. Each is

    OPEN --failures in a row--> SHUT --its time is over--> HALF OPEN --the first one through, the probe--> SHUT for a
    moment --it worked--> OPEN, or --it failed--> SHUT for twice as long

A probe of which nothing is heard (its client left) is followed by another one after that moment. What had begun
before the last failure fails with it: a restart that cuts fifty turns is one failure. Times are cut by up to a half,
so that sidecars which failed together do not try again together.

Beside the gates, dials are limited: as many at once, and as many a second for one tenant, as below (`dials_limited`).
Links are opened by turns that need them, so after a restart of the upstream these limits are what it sees; links that
are opened ahead of need get half of them, and none while anything fails.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from proxy.tenants import PerTenant

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCHING = 101
NO_WEBSOCKET_STATUSES = frozenset({400, 404, 405, 426, 501})
"""Answers to an upgrade that say: there is no WebSocket mode here. Others are about this moment or this caller."""
MAX_DIALLING = 64
"""Links that are being opened at once."""
DIAL_BURST = 64
DIAL_RATE = 16.0
"""Links that one tenant may have opened at once, and how many of these places come free each second."""
MAX_RETRY_AFTER = 3600.0
"""Seconds for which an upstream's own word is taken."""
_UPSTREAM = b""


class Kind(NamedTuple):
    """`after` failures a gate is shut for `first` seconds, then twice as long each time, up to `most`.

    `moment`: seconds for which it is shut behind a probe.
    """

    reason: str
    after: int
    first: float
    most: float
    moment: float


NO_WEBSOCKET = Kind("no_websocket", after=1, first=600.0, most=600.0, moment=10.0)
REFUSED = Kind("dial_failed", after=1, first=5.0, most=60.0, moment=10.0)
UNREACHABLE = Kind("dial_failed", after=1, first=5.0, most=60.0, moment=10.0)
BREAKER = Kind("breaker_open", after=3, first=30.0, most=600.0, moment=30.0)


class _State(NamedTuple):
    failures: int = 0
    failed: float = -math.inf
    until: float = -math.inf


_OPEN = _State()


class Gate:
    """The gates of one kind. `jitter` gives numbers from 0 to 1."""

    def __init__(self, kind: Kind, jitter: Callable[[], float]) -> None:
        self.kind = kind
        self._jitter = jitter
        self._states: PerTenant[_State] = PerTenant()

    def shut(self, key: bytes, now: float) -> bool:
        """Whether nobody is let through at this moment."""
        return now < (self._states.get(key) or _OPEN).until

    def clear(self, key: bytes) -> bool:
        """Whether nothing has failed since something last worked."""
        return self._states.get(key) is None

    def entered(self, key: bytes, now: float) -> None:
        """Somebody goes through; where the gate was shut before, it is the probe."""
        state = self._states.get(key)
        if state is not None and state.failures >= self.kind.after:
            self._states.put(key, state._replace(until=now + self.kind.moment))

    def failed(self, key: bytes, since: float, now: float, at_least: float = 0.0) -> None:
        """What went through at `since` has failed; `at_least`: seconds that the upstream itself asks for."""
        state, kind = self._states.get(key) or _OPEN, self.kind
        if since <= state.failed:
            return
        failures = state.failures + 1
        if failures < kind.after:
            self._states.put(key, _State(failures, now))
            return
        share = self._jitter()
        most = min(kind.most, kind.first * 2.0 ** min(failures - kind.after, 32))
        wait = max(most * (1 - share / 2), min(at_least, MAX_RETRY_AFTER) * (1 + share / 10))
        self._states.put(key, _State(failures, now, now + wait))

    def worked(self, key: bytes) -> None:
        """What went through did its work."""
        self._states.forget(key)

    def count(self, now: float) -> int:
        """How many are shut."""
        return sum(now < state.until for state in self._states.values())


class Gates:
    """All gates and limits of one sidecar. Times are monotonic seconds."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._no_websocket = Gate(NO_WEBSOCKET, jitter)
        self._refused = Gate(REFUSED, jitter)
        self._unreachable = Gate(UNREACHABLE, jitter)
        self._breaker = Gate(BREAKER, jitter)
        self._dialling = 0
        self._booked: PerTenant[float] = PerTenant()

    def has_websocket(self, tenant: bytes, now: float) -> bool:
        """Whether the upstream is not known to be without WebSocket mode to this tenant."""
        return not self._no_websocket.shut(tenant, now)

    def against_links(self, tenant: bytes, now: float) -> str:
        """Why a turn of the tenant gets no link at all; empty when it may."""
        return next((gate.kind.reason for gate in (self._no_websocket, self._breaker) if gate.shut(tenant, now)), "")

    def against_dial(self, tenant: bytes, now: float) -> str:
        """Why no link is opened for a turn of the tenant; empty when one may be."""
        if self._unreachable.shut(_UPSTREAM, now) or self._refused.shut(tenant, now):
            return REFUSED.reason
        booked = (self._booked.get(tenant) or now) - now
        if self._dialling >= MAX_DIALLING or booked > (DIAL_BURST - 1) / DIAL_RATE:
            return "dials_limited"
        return ""

    def spares(self, tenant: bytes, now: float) -> bool:
        """Whether a link may be opened ahead of need."""
        booked = (self._booked.get(tenant) or now) - now
        return (
            self._unreachable.clear(_UPSTREAM)
            and all(gate.clear(tenant) for gate in (self._no_websocket, self._refused, self._breaker))
            and self._dialling < MAX_DIALLING // 2
            and booked <= DIAL_BURST / 2 / DIAL_RATE
        )

    def lent(self, tenant: bytes, now: float) -> None:
        """A turn takes a link."""
        self._breaker.entered(tenant, now)

    def dialled(self, tenant: bytes, now: float) -> None:
        """A link is being opened; `settled` follows in any case."""
        self._dialling += 1
        self._booked.put(tenant, max(self._booked.get(tenant) or now, now) + 1 / DIAL_RATE)
        self._no_websocket.entered(tenant, now)
        self._refused.entered(tenant, now)
        self._unreachable.entered(_UPSTREAM, now)

    def settled(self) -> None:
        """A link is open, or it is not going to be."""
        self._dialling -= 1

    def answered(self, tenant: bytes, status: int, since: float, now: float, retry_after: float = 0.0) -> str:
        """A handshake begun at `since` had an answer; the reason of a turn that needed it, empty after a 101."""
        self._unreachable.worked(_UPSTREAM)
        if status == SWITCHING:
            self._no_websocket.worked(tenant)
            self._refused.worked(tenant)
            return ""
        gate = self._no_websocket if status in NO_WEBSOCKET_STATUSES else self._refused
        gate.failed(tenant, since, now, retry_after)
        return gate.kind.reason

    def unanswered(self, tenant: bytes, since: float, now: float) -> str:
        """There was a connection, and no answer to the handshake; the reason of a turn that needed it."""
        self._refused.failed(tenant, since, now)
        return REFUSED.reason

    def unreachable(self, since: float, now: float) -> str:
        """No connection could be made; the reason of a turn that needed it."""
        self._unreachable.failed(_UPSTREAM, since, now)
        return UNREACHABLE.reason

    def served(self, tenant: bytes) -> None:
        """A turn on a link came to its end."""
        self._breaker.worked(tenant)

    def lost(self, tenant: bytes, since: float, now: float) -> None:
        """A link died with a turn on it that had begun at `since`."""
        self._breaker.failed(tenant, since, now)

    def shut(self, now: float) -> dict[str, int]:
        """How many gates are shut, by the reason that turns are given."""
        found: dict[str, int] = {}
        for gate in (self._no_websocket, self._refused, self._unreachable, self._breaker):
            found[gate.kind.reason] = found.get(gate.kind.reason, 0) + gate.count(now)
        return found
