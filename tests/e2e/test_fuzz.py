"""Whatever comes in, from clients and from upstreams: only documented errors come out, and serving goes on."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telemetry.reasons import SIDECAR_ERRORS
from tests.support.responses import user
from tests.support.rig import Got, Rig, Talk, read, rigged
from upstream.scripted import Play, Turn, answer, message, reasoning
from upstream.scripted.faults import CloseAfter
from wire.events import TERMINAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Json = dict[str, Any]

BOUNDED = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
"""Each example is one sidecar that gets many inputs."""
T = TypeVar("T")


def many(one: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """So many inputs."""
    return st.lists(one, min_size=10, max_size=25)


KEY_OF = re.compile(rb"\r\nsec-websocket-key: *([^\r]*)\r\n", re.IGNORECASE)
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

BODY: Json = {
    "model": "m",
    "input": [user("a"), reasoning("e"), message("b"), user("c")],
    "stream": True,
    "store": False,
}
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
MEMBERS = st.dictionaries(
    st.sampled_from(
        ["input", "stream", "store", "tools", "metadata", "previous_response_id", "background", "text", "x"]
    ),
    VALUES,
    max_size=3,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes with a few places cut, doubled or replaced."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        how = draw(st.sampled_from(["cut", "end", "double", "other"]))
        if how == "cut":
            del data[at : at + draw(st.integers(1, 8))]
        elif how == "end":
            del data[at:]
        elif how == "double":
            data[at:at] = data[at : at + 8]
        else:
            data[at : at + 1] = draw(st.binary(max_size=3))
    return bytes(data)


BODIES = st.one_of(
    damaged(json.dumps(BODY).encode()),
    MEMBERS.map(lambda found: json.dumps(BODY | found).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=40),
)
CODED = st.one_of(
    st.tuples(BODIES, st.just("")),
    st.tuples(BODIES.map(gzip.compress).flatmap(damaged), st.just("gzip")),
    st.tuples(BODIES, st.sampled_from(["gzip", "br", "zstd", "deflate", "gzip, br", "rot13", ","])),
)

EVENTS = answer([reasoning("e"), message("hello")], response_id="resp_1", request={})
FRAME = st.one_of(
    st.sampled_from(EVENTS).map(lambda event: json.dumps(event).encode()),
    st.sampled_from(EVENTS).flatmap(lambda event: damaged(json.dumps(event).encode())),
    st.tuples(st.sampled_from(EVENTS), MEMBERS, VALUES).map(
        lambda parts: json.dumps(parts[0] | parts[1] | {"response": parts[2]}).encode()
    ),
    st.dictionaries(st.sampled_from(["type", "error", "code", "status", "headers", "response"]), VALUES).map(
        lambda event: json.dumps({"type": "error"} | event).encode()
    ),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.text(max_size=20).map(str.encode),
).map(lambda frame: frame.decode(errors="ignore").encode())


@st.composite
def whole_but_for_little(draw: st.DrawFn) -> list[bytes]:
    """The frames of an answer of which one or two are missing, doubled or others."""
    frames = [json.dumps(event).encode() for event in EVENTS]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(frames) - 1))
        frames[at : at + 1] = draw(
            st.sampled_from([[], frames[at : at + 1] * 2, [draw(FRAME)], [draw(FRAME), frames[at]]])
        )
    return frames


def documented(got: Got) -> None:
    """An answer that the page of codes foresees, in the API's shape."""
    assert got.own_error is None or got.own_error in SIDECAR_ERRORS
    assert got.own_error != "internal"
    if got.status != 200:
        assert got.fault["message"]
    elif got.headers["content-type"].startswith("text/event-stream"):
        events = re.findall(rb"event: (.*)\ndata: (.*)\n\n", got.raw)
        assert got.raw.count(b"\n\n") >= len(events) > 0
        for name, data in events:
            assert json.loads(data)["type"] == name.decode()
        assert json.loads(events[-1][1])["type"] in TERMINAL
    else:
        assert isinstance(json.loads(got.raw), dict)


async def goes_on(rig: Rig) -> None:
    """The next conversation, of somebody else, is served as ever."""
    await rig.quiet()
    assert rig.links.pool.counts()["busy"] == 0
    talk = Talk(rig, key="sk-next")
    for text in ("a", "b"):
        got = await talk.say(text)
        assert (got.status, got.response["status"]) == (200, "completed")
    assert talk.ways[-1] == ("delta", None)


@BOUNDED
@given(many(CODED))
async def test_any_body_is_answered_in_the_apis_shape(inputs: list[tuple[bytes, str]]) -> None:
    async with rigged() as rig:
        rig.checked = False
        for body, coding in inputs:
            documented(await rig.post(body, **({"content_encoding": coding} if coding else {})))
        await goes_on(rig)


@BOUNDED
@given(many(st.tuples(st.one_of(whole_but_for_little(), st.lists(FRAME, max_size=6)), st.booleans())))
async def test_any_frames_of_an_upstream_end_in_an_answer_that_is_one(inputs: list[tuple[list[bytes], bool]]) -> None:
    def script(turn: Turn) -> Play:
        if turn.headers["authorization"] == "Bearer sk-next":
            return Play(items=[message("m")])
        number = int(turn.body["metadata"]["n"]) - 1
        return Play(events=inputs[number][0], faults=[CloseAfter(None, 1000)])

    async with rigged(script) as rig:
        rig.checked = False
        for number, (_, stream) in enumerate(inputs):
            body = rig.body([user("a")], stream=stream)
            documented(await rig.post(body, f"sk-{number}"))  # of a tenant of its own, which has its own breaker
        await goes_on(rig)


@asynccontextmanager
async def replying(reply: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """A server that sends these bytes for each request, and closes. Its base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            if length:
                await reader.readexactly(int(length[1]))
            writer.write(reply(head))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


VERSIONS = [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"SMTP"]
STATUSES = [
    b"200",
    b"200",
    b"204",
    b"304",
    b"307",
    b"400",
    b"401",
    b"404",
    b"429",
    b"500",
    b"503",
    b"100",
    b"0",
    b"1000",
]
PLAUSIBLE = [
    b"content-type: text/event-stream",
    b"content-type: application/json",
    b"content-length: 5",
    b"content-encoding: gzip",
    b"connection: close",
    b"location: http://127.0.0.1:1/",
    b"retry-after: soon",
    b"x-deltawire-features: envelope, append, context",
]
ODD = [
    b"transfer-encoding: chunked",
    b"content-length: -1",
    b"connection: upgrade",
    b"upgrade: websocket",
    b"x-odd: \xff\x00",
    b"no colon",
]
HEAD = st.tuples(
    st.sampled_from(VERSIONS),
    st.sampled_from(STATUSES),
    st.lists(st.sampled_from(PLAUSIBLE), max_size=3, unique=True),
    st.one_of(st.just([]), st.just([]), st.lists(st.sampled_from(ODD), max_size=2, unique=True)),
).map(lambda parts: b"\r\n".join([b"%b %b Odd" % parts[:2], *parts[2], *parts[3], b"", b""]))
ANSWERS = st.one_of(
    st.tuples(HEAD, st.binary(max_size=60)).map(b"".join), HEAD.flatmap(damaged), st.binary(max_size=60)
)
GOOD = b'{"id":"resp_1","object":"response","status":"completed","output":[]}'
SERVED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(GOOD), GOOD)


async def ask(rig: Rig, number: int) -> Got | None:
    """A turn of a tenant of its own; None when its answer was broken off."""
    try:
        async with rig.open(rig.body([user("a")], stream=True), f"sk-{number}") as got:
            return await read(got)
    except (aiohttp.ClientError, ValueError):
        return None


@BOUNDED
@given(many(ANSWERS))
async def test_any_answer_over_http_is_passed_on_or_a_502_or_broken_off_as_it_was(inputs: list[bytes]) -> None:
    waiting = list(inputs)
    async with (
        replying(lambda _: waiting.pop(0) if waiting else SERVED) as url,
        rigged(url=url, transport="http") as rig,
    ):
        rig.checked = False
        for number in range(len(inputs)):
            got = await ask(rig, number)
            assert got is None or got.own_error in {None, "upstream_unreachable"}
        waiting.clear()
        last = await ask(rig, 0)
        assert last is not None
        assert (last.status, last.raw) == (200, GOOD)


@BOUNDED
@given(many(st.tuples(st.booleans(), ANSWERS)))
async def test_any_answer_to_a_handshake_leaves_turns_to_http_or_to_a_link_that_is_lost(
    inputs: list[tuple[bool, bytes]],
) -> None:
    """Some answers are right, and the bytes behind them are no WebSocket's."""
    waiting = list(inputs)

    def reply(head: bytes) -> bytes:
        key = KEY_OF.search(head)
        if key is None or not waiting:
            return SERVED
        right, rest = waiting.pop(0)
        accept = base64.b64encode(hashlib.sha1(key[1].strip() + GUID, usedforsecurity=False).digest())
        shake = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        return shake + b"sec-websocket-accept: " + accept + b"\r\n\r\n" + rest if right else rest

    async with replying(reply) as url, rigged(url=url) as rig:
        rig.checked = False
        for number in range(len(inputs)):
            got = await ask(rig, number)
            assert got is not None
            assert got.own_error in {None, "link_lost", "upstream_unreachable"}
            assert got.status == (200 if got.own_error is None else 502)
        await rig.quiet()
        waiting.clear()
        last = await ask(rig, len(inputs))
        assert last is not None
        assert (last.status, last.raw) == (200, GOOD)
