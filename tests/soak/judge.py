"""The verdict on every turn: what its upstream rebuilt of it, and whether what its client saw has a cause there."""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.recovery import refusal
from tests.soak.stage import MARKER, Arrival, Upstream, number_of, tenant_of
from upstream.scripted import Turn, compare

if TYPE_CHECKING:
    from tests.soak.stage import Sidecar

Json = dict[str, Any]

CUTS = frozenset(
    {"reset-before", "close-before", "reset-mid-answer", "close-mid-answer", "not-json", "binary", "mixed-up"}
)
"""Faults that end a connection under the turn that shows them."""
AFTER = frozenset({"close-after", "one-too-many"})
"""Faults that end a connection after the turn that shows them, and may meet the next one on it."""
ERRORS = {
    "rate-limited": (429, "slow_down"),
    "server-error": (500, ""),
    "overloaded": (503, "server_is_overloaded"),
    "error-mid-answer": (500, ""),
}
HANGS = frozenset({"silent", "stalled"})
_MARKS = re.compile(rb"tenant-\d+")
_SHOWN = 50
KEPT = 3000
"""Bodies that are remembered; the agents are far fewer."""


@dataclass
class Body:
    """One turn of an agent, however often it was tried."""

    number: int
    tenant: str
    raw: bytes
    upstream: Upstream
    tries: int = 0
    arrivals: list[Arrival] = field(default_factory=list)
    before: list[Arrival] = field(default_factory=list)
    """What came before each of these on the same connection."""

    @property
    def turns(self) -> list[Turn]:
        """What reached the upstream of it."""
        return [arrival.turn for arrival in self.arrivals]

    @property
    def faults(self) -> list[str]:
        """The fault of each of these; empty where it had none."""
        return [self.upstream.fault(arrival) for arrival in self.arrivals]


@dataclass
class Seen:
    """What a client saw of one try. `kind`: the status of the response, or `error`, `broken`, `left`."""

    kind: str
    status: int = 0
    code: str = ""
    own: str = ""
    response_id: str = ""
    text: str = ""
    way: str = ""


class Judge:
    """Counts. Everything in `wrong` is a fault of the sidecar, or of the soak itself."""

    def __init__(self) -> None:
        self.bodies: dict[int, Body] = {}
        self.wrong: Counter[str] = Counter()
        self.shown: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.tries = 0
        self.upstream_turns = 0
        self._count = 0
        self._waiting: dict[Upstream, list[Turn]] = defaultdict(list)
        self._latest: OrderedDict[tuple[str, int, int], Arrival] = OrderedDict()

    def body(self, tenant: str, upstream: Upstream, members: Json) -> Body:
        """A new turn. Its number travels where it decides nothing."""
        self._count += 1
        raw = json.dumps(members | {"metadata": {"n": str(self._count)}}).encode()
        made = self.bodies[self._count] = Body(self._count, tenant, raw, upstream)
        self.bodies.pop(self._count - KEPT, None)
        return made

    def blame(self, kind: str, what: str) -> None:
        """Something that must not be."""
        self.wrong[kind] += 1
        if len(self.shown) < _SHOWN:
            self.shown.append(f"{kind}: {what}")

    def collect(self, upstream: Upstream) -> None:
        """Look at all that has arrived at an upstream. A turn that is not read yet is looked at again."""
        for arrival in upstream.arrived():
            self.upstream_turns += 1
            self._arrived(upstream, arrival)
        waiting, self._waiting[upstream] = self._waiting[upstream], []
        for turn in waiting:
            self._check(upstream, turn)

    def _arrived(self, upstream: Upstream, arrival: Arrival) -> None:
        turn = arrival.turn
        body = self.bodies.get(number_of(turn))
        if body is None:
            self.blame("context", f"a turn of no body at {upstream.name}")
            return
        if body.tenant != tenant_of(turn) or body.upstream is not upstream:
            self.blame("tenants", f"body {body.number} came with the credentials of another")
        body.arrivals.append(arrival)
        if turn.connection:
            place = (upstream.name, arrival.life, turn.connection)
            if place in self._latest:
                body.before.append(self._latest[place])
            self._latest[place] = arrival
            if len(self._latest) > KEPT:
                self._latest.popitem(last=False)
        started = sum(not _refused(one) for one in body.turns)
        if started > body.tries:
            self.blame("duplicates", f"body {body.number} was started {started} times in {body.tries} tries")
        self._check(upstream, turn)

    def _check(self, upstream: Upstream, turn: Turn) -> None:
        if turn.outcome == "running" and not turn.events_sent:
            self._waiting[upstream].append(turn)  # it may not have been read yet
            return
        if _refused(turn) or not turn.members:
            return
        body = self.bodies.get(number_of(turn))
        if body is None:
            return
        for found in compare(turn, body.raw, body.number)[:1]:
            self.blame("context", str(found))
        marks = {mark for item in turn.context for mark in _MARKS.findall(item.raw)}
        if marks - {body.tenant.encode()}:
            self.blame("tenants", f"body {body.number} has items of another")

    def hangs(self, body: Body) -> bool:
        """Whether some client that waits for this turn waits for ever."""
        self.collect(body.upstream)
        return any(
            turn.outcome == "running" and fault in HANGS for turn, fault in zip(body.turns, body.faults, strict=True)
        )

    def seen(self, body: Body, seen: Seen, since: float, sidecar: Sidecar) -> None:
        """Judge what a client saw of a try that began at `since`."""
        self.collect(body.upstream)
        self.tries += 1
        self.kinds[f"{seen.kind} {seen.status} {seen.own or seen.code}".strip()] += 1
        if seen.way:
            self.ways[seen.way] += 1
        if seen.kind == "left":
            return
        if seen.kind in {"completed", "incomplete"} or (seen.kind == "failed" and not seen.own):
            self._told(body, seen)
        elif not self._explained(body, seen, since, sidecar):
            turns = [(turn.transport, turn.outcome, fault) for turn, fault in zip(body.turns, body.faults, strict=True)]
            self.blame("visible", f"body {body.number}: {seen} without a cause, turns {turns}")

    def _told(self, body: Body, seen: Seen) -> None:
        """A whole answer is the one that the upstream gave to this very turn."""
        if not any(turn.response_id == seen.response_id and turn.outcome == seen.kind for turn in body.turns):
            self.blame("visible", f"body {body.number}: {seen.kind} {seen.response_id} was never answered")
        elif seen.text and seen.text != f"{MARKER} {body.tenant} {body.number}":
            self.blame("tenants", f"body {body.number} was answered with the text of another")

    def _explained(self, body: Body, seen: Seen, since: float, sidecar: Sidecar) -> bool:
        """Whether a failure that a client saw is one that its upstream had, or one of the restarts."""
        faults, turns = set(body.faults), body.turns
        away, restarted = body.upstream.outages.within(since), sidecar.outages.within(since)
        cut = bool(faults & CUTS) or away or any(body.upstream.fault(one) in AFTER for one in body.before)
        by_http = any(turn.transport == "http" for turn in turns)
        excuses = {
            "link_lost": cut or restarted,
            "upstream_refused": sum(map(_refused, turns)) > 1,
            "upstream_unreachable": away or (by_http and bool(faults & CUTS)),
            "upstream_late": bool(faults & HANGS),
            "shutting_down": restarted,
        }
        if seen.own:
            return excuses.get(seen.own, False)
        if seen.kind == "broken":
            return restarted or (by_http and (cut or bool(faults & HANGS)))
        told = [ERRORS[fault] for fault in faults & ERRORS.keys()]
        # An error inside a stream has no status of its own.
        return any(seen.code == code and seen.status in {200, status} for status, code in told)


def _refused(turn: Turn) -> bool:
    """Whether the upstream refused to start a turn in a way that may be answered by the same turn in full."""
    return (
        turn.outcome == "refused"
        and turn.error is not None
        and refusal(turn.error, chained=turn.parent != "") is not None
    )
