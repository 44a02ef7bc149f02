"""A sidecar before a scripted upstream, in this process, and clients whose every turn is checked at the end."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from proxy import app
from proxy.recovery import refusal
from proxy.settings import Address, ProxySettings
from tests.support.responses import user
from upstream.scripted import ScriptedUpstream, check_context
from wire.split import Malformed, members
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from proxy.links import Links
    from state.heads import Head
    from telemetry.traces import Tracing
    from upstream.scripted import Turn

Json = dict[str, Any]

KEY = "sk-one"
PATIENCE = 30.0
"""Seconds after which a test that waits for what never comes ends; nothing else depends on it."""
_LONG = 3600.0
_TLS = cache(ssl.create_default_context)
"""One context for all: reading the certificates is most of the time that a start takes."""
_LOOPBACK = Address("127.0.0.1", 0)


@dataclass(frozen=True, slots=True)
class Got:
    """An answer, read to its end. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def events(self) -> list[Json]:
        """The data of all events."""
        return [json.loads(event.data) for event in Parser().feed(self.raw)]

    @property
    def types(self) -> list[str]:
        """The types of all events."""
        return [event["type"] for event in self.events]

    @property
    def response(self) -> Json:
        """The response object: of the last event, or the body; of an `error` event hardly anything."""
        if self.headers["content-type"].startswith("text/event-stream"):
            last: Json = self.events[-1].get("response", {"status": "error"})
            return last
        body: Json = json.loads(self.raw)
        return body

    @property
    def fault(self) -> Json:
        """The error object of the body."""
        error: Json = json.loads(self.raw)["error"]
        return error

    @property
    def way(self) -> tuple[str | None, str | None]:
        """Transport and reason, as the headers say."""
        return self.headers.get("x-deltawire-transport"), self.headers.get("x-deltawire-reason")

    @property
    def own_error(self) -> str | None:
        """The code of an error that the sidecar made itself."""
        return self.headers.get("x-deltawire-error")


async def read(answer: aiohttp.ClientResponse) -> Got:
    """The answer, read to its end."""
    return Got(answer.status, {name.lower(): value for name, value in answer.headers.items()}, await answer.read())


async def until(holds: Callable[[], bool]) -> None:
    """Let everything else go on until something is true that nothing announces."""
    while not holds():  # noqa: ASYNC110 - the sidecar has no event for tests to wait for
        await asyncio.sleep(0)


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """Let the sidecar do what comes as if it came later."""
    places = ("proxy.links", "proxy.turn", "proxy.upgrade")
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(patch(f"{place}.monotonic", lambda: monotonic() + seconds))
        yield


@dataclass
class Rig:
    """One sidecar, its upstream and a client. `bodies` are those sent so far, by the number they carry."""

    up: ScriptedUpstream
    running: app.Running
    session: aiohttp.ClientSession
    bodies: dict[int, bytes] = field(default_factory=dict)
    unserved: set[int] = field(default_factory=set)
    """Numbers of bodies that need not have reached the upstream."""
    checked: bool = True
    """Whether the end of the test compares what the upstream rebuilt with what was sent."""

    @property
    def url(self) -> str:
        """Where turns go."""
        return f"{self.running.url}/v1/responses"

    @property
    def links(self) -> Links:
        """The sidecar's links."""
        return self.running.sidecar.services.links

    async def refuse_links(self) -> None:
        """Let the sidecar have learned of each known tenant that the upstream takes none of its links."""
        await self.quiet()  # a link that is being opened would prove the contrary
        for tenant in {head.tenant for head in self.heads}:
            self.links.answered(tenant, 404, monotonic())

    @property
    def heads(self) -> list[Head]:
        """The known heads, the latest last."""
        return list(self.running.sidecar.services.memory.index)

    @property
    def states(self) -> list[str]:
        """States of all slots."""
        return sorted(slot.state.name for slot in self.links.pool)

    def body(self, items: list[Json] | str, **members: Any) -> bytes:
        """A numbered body. The number travels in `metadata`, which never decides anything."""
        number = len(self.bodies) + 1
        body = {"model": "m", "metadata": {"n": str(number)}, **members, "input": items}
        raw = json.dumps({name: value for name, value in body.items() if value is not ...}).encode()
        self.bodies[number] = raw
        return raw

    @asynccontextmanager
    async def open(self, body: bytes, key: str | None = KEY, **headers: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """POST a body, and the answer before it is read. Underscores in header names stand for dashes."""
        sent = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(self.url, data=body, headers=sent) as answer:
            yield answer

    async def post(self, body: bytes, key: str | None = KEY, **headers: str) -> Got:
        """POST a body, and the whole answer."""
        async with self.open(body, key, **headers) as answer:
            return await read(answer)

    async def leave(self, body: bytes, **headers: str) -> None:
        """POST a body, and go away once the answer has begun."""
        async with self.open(body, **headers) as answer:
            await answer.content.readany()

    def turns_of(self, number: int) -> list[Turn]:
        """All that reached the upstream for one body."""
        return [turn for turn in self.up.turns if _number(turn) == number]

    def check(self) -> None:
        """Nothing is lost, added or doubled: what the upstream rebuilt is what was sent, once each."""
        wrong = []
        for number, body in self.bodies.items():
            turns = self.turns_of(number)
            while len(turns) > 1 and _refused(turns[0]):
                del turns[0]
            if turns or number not in self.unserved:
                wrong += [f"body {number} {found.path}: {found.reason}" for found in check_context(turns, [body])]
        wrong += [f"turn {turn.number} is of no body" for turn in self.up.turns if _number(turn) not in self.bodies]
        if wrong or self.up.violations:
            raise AssertionError("; ".join([*wrong, *self.up.violations]))

    def end_links(self) -> None:
        """Retire all links that no turn runs on."""
        for slot in self.links.pool:
            if slot.state.name == "IDLE":
                self.links._end_slot(slot, "retired")

    async def quiet(self) -> None:
        """Wait until no handler and no dial runs any more."""
        await until(lambda: set(self.states) <= {"IDLE"} and not self.running.sidecar._active)

    async def spare(self) -> None:
        """Wait until a link without a conversation is open."""
        await until(lambda: any(slot.fresh for slot in self.links.pool))

    async def metrics(self) -> Callable[..., float]:
        """Sums of samples by name and labels, as scraped now."""
        async with self.session.get(f"{self.running.admin_url}/metrics") as answer:
            text = await answer.text()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

        def value(name: str, **labels: str) -> float:
            return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())

        return value


def _number(turn: Turn) -> int:
    try:
        metadata = members(turn.raw).get("metadata", b"{}")
    except Malformed:
        return 0
    return int(json.loads(metadata).get("n", 0))


def _refused(turn: Turn) -> bool:
    """Whether the turn was refused in a way that may be answered by the same turn in full."""
    return (
        turn.outcome == "refused"
        and turn.error is not None
        and refusal(turn.error, chained=turn.parent != "") is not None
    )


class Talk:
    """One conversation: a client that sends its whole history each turn, and takes answers into it as they came."""

    def __init__(self, rig: Rig, *, stream: bool = True, key: str = KEY, **envelope: Any) -> None:
        self.rig = rig
        self.stream = stream
        self.key = key
        self.envelope = envelope
        self.history: list[Json] = []
        self.ways: list[tuple[str | None, str | None]] = []
        self.echo: Callable[[list[Json]], list[Json]] = list

    def fork(self) -> Talk:
        """Another conversation with the same past."""
        other = Talk(self.rig, stream=self.stream, key=self.key, **self.envelope)
        other.history = list(self.history)
        other.echo = self.echo
        return other

    def body(self) -> bytes:
        """The body of the next turn."""
        return self.rig.body(self.history, stream=self.stream or ..., **self.envelope)

    async def send(self, **headers: str) -> Got:
        """A turn with the history as it is; the history stays."""
        return await self.rig.post(self.body(), self.key, **headers)

    async def say(self, *items: Json | str, **headers: str) -> Got:
        """A turn with new items; text is a message of the user. A completed answer joins the history."""
        self.history += [user(item) if isinstance(item, str) else item for item in items]
        got = await self.send(**headers)
        self.ways.append(got.way)
        if got.status == 200 and got.response["status"] == "completed":
            self.history += self.echo(got.response["output"])
        return got


def settings(upstream: str, **changes: Any) -> ProxySettings:
    """Settings under which nothing happens by the passing of time."""
    still: dict[str, Any] = {
        "hold": _LONG,
        "silence": _LONG,
        "ping_interval": _LONG,
        "first_event_timeout": 0.0,
        "event_timeout": 0.0,
        "drain": PATIENCE,
        "dial_timeout": PATIENCE,
    }
    return ProxySettings(upstream=upstream, **{**still, "listen": _LOOPBACK, "admin": _LOOPBACK, **changes})


@asynccontextmanager
async def rigged(
    script: Any = None,
    *,
    upstream: Mapping[str, Any] | None = None,
    tracing: Tracing | None = None,
    patience: float = PATIENCE,
    **changes: Any,
) -> AsyncIterator[Rig]:
    """A rig; at the end everything that was sent is checked, and the sidecar has to leave nothing behind.

    `upstream` are options of the scripted upstream, `changes` those of the sidecar's settings.
    """
    options = dict(upstream or {})
    async with (
        asyncio.timeout(patience),
        ScriptedUpstream(*([script] if script is not None else []), **options) as up,
        # Connections are not kept: a client that leaves, and one that comes, are then visible to the sidecar.
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True), auto_decompress=False) as session,
    ):
        with patch.object(ssl, "create_default_context", _TLS):
            running = await app.start(settings(changes.pop("url", up.url), **changes), tracing)
        rig = Rig(up, running, session)
        try:
            yield rig
        finally:
            await running.close()
        for left in _left(rig):
            raise AssertionError(left)
        if rig.checked:
            rig.check()


def _left(rig: Rig) -> Iterator[str]:
    sidecar = rig.running.sidecar
    if len(rig.links.pool):
        yield f"slots were left: {list(rig.links.pool)}"
    if len(sidecar._tasks) or len(sidecar._background):
        yield "tasks were left"
    leased = [head for head in rig.heads if head.leases]
    if leased:
        yield f"leases were left: {leased}"
