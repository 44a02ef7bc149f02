"""One link on a real WebSocket: it is read for its whole life, and anything out of order ends it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from proxy import link as link_module
from proxy.link import Link, LinkEnded
from proxy.pool import Slot
from tests.support.rig import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = b'{"type":"error","status":400,"error":{"code":"websocket_connection_limit_reached"}}'


class Far:
    """The other end."""

    def __init__(self) -> None:
        self.socket = web.WebSocketResponse(autoping=False, autoclose=False, max_msg_size=0)
        self.request: web.Request
        self.ready = asyncio.Event()
        self.heard: list[aiohttp.WSMessage] = []
        self.answers_pings = True

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        self.request = request
        await self.socket.prepare(request)
        self.ready.set()
        async for message in self.socket:
            self.heard.append(message)
            if message.type is aiohttp.WSMsgType.PING and self.answers_pings:
                await self.socket.pong(message.data)
        return self.socket


@asynccontextmanager
async def linked(*, max_size: int = 0) -> AsyncIterator[tuple[Link, Far, list[str]]]:
    """A link that is being read, its other end, and the causes that it has been ended for."""
    far, causes = Far(), list[str]()
    app = web.Application()
    app.router.add_get("/", far.serve)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        socket = await session.ws_connect(
            f"http://{host}:{port}/", autoping=False, max_msg_size=max_size, decode_text=False
        )
        link = Link(Slot(1, b"t", 0.0, 1e9, 0.0), socket, envelope=False, on_end=lambda _, cause: causes.append(cause))
        reader = asyncio.ensure_future(link.read())
        await far.ready.wait()
        try:
            yield link, far, causes
        finally:
            link.end("drain")
            await link.close(1001)
            await reader
            await runner.cleanup()


async def next_frame(link: Link) -> bytes:
    await link.wait()
    frame = link.arrived()
    assert frame is not None
    return frame


async def test_frames_of_a_turn_come_in_order_and_the_link_is_free_after_the_last() -> None:
    async with linked() as (link, far, causes):
        await link.send(b'{"type":"response.create"}')
        await until(lambda: bool(far.heard))
        assert (far.heard[0].type, far.heard[0].data) == (aiohttp.WSMsgType.TEXT, '{"type":"response.create"}')
        for text in ("1", "2", "3"):
            await far.socket.send_str(text)
        assert [await next_frame(link) for _ in range(3)] == [b"1", b"2", b"3"]
        assert link.arrived() is None
        link.finish()
        assert causes == []


async def test_what_arrived_before_the_end_is_given_out_before_the_end_is_told() -> None:
    async with linked() as (link, far, causes):
        await link.send(b"{}")
        await far.socket.send_str("last")
        closing = asyncio.ensure_future(far.socket.close(code=1000))
        await until(lambda: bool(causes))
        assert await next_frame(link) == b"last"
        with pytest.raises(LinkEnded, match="closed_by_upstream") as ended:
            await link.wait()
        assert ended.value.written
        await closing


@pytest.mark.parametrize(
    ("frame", "cause"),
    [
        ('{"type":"response.created"}', "out_of_order"),
        ("nonsense", "out_of_order"),
        (LIMIT.decode(), "connection_limit"),
    ],
)
async def test_a_frame_that_no_turn_waits_for_ends_the_link(frame: str, cause: str) -> None:
    async with linked() as (link, far, causes):
        await far.socket.send_str(frame)
        await until(lambda: bool(link.ended))
        assert causes == [cause]
        with pytest.raises(LinkEnded) as ended:
            await link.send(b"{}")
        assert not ended.value.written


async def test_a_frame_too_many_ends_the_link_when_the_turn_is_over() -> None:
    async with linked() as (link, far, causes):
        await link.send(b"{}")
        await far.socket.send_str("terminal")
        await far.socket.send_str("one more")
        assert await next_frame(link) == b"terminal"
        await until(lambda: len(link._frames) == 1)
        link.finish()
        assert causes == ["out_of_order"]


async def test_a_binary_frame_ends_the_link() -> None:
    async with linked() as (link, far, causes):
        await link.send(b"{}")
        await far.socket.send_bytes(b"1")
        await until(lambda: bool(causes))
        assert causes == ["out_of_order"]


@pytest.mark.parametrize(
    ("code", "cause"), [*((code, "closed_by_upstream") for code in (1000, 1001, 1011, 4000)), (1009, "too_large")]
)
async def test_a_close_on_an_idle_link_is_noticed_at_once(code: int, cause: str) -> None:
    async with linked() as (link, far, causes):
        closing = asyncio.ensure_future(far.socket.close(code=code))
        await until(lambda: bool(link.ended))
        assert causes == [cause]
        await closing


async def test_a_break_without_a_close_is_an_abort() -> None:
    async with linked() as (_, far, causes):
        assert far.request.transport is not None
        far.request.transport.abort()
        await until(lambda: bool(causes))
        assert causes == ["aborted"]


async def test_a_message_beyond_the_limit_ends_the_link_as_oversized() -> None:
    async with linked(max_size=1000) as (link, far, causes):
        await link.send(b"{}")
        await far.socket.send_str("x" * 2000)
        await until(lambda: bool(causes))
        assert causes == ["oversized"]


async def test_pings_of_the_other_end_are_answered_with_their_payload() -> None:
    async with linked() as (link, far, _):
        await far.socket.ping(b"are you there")
        await until(lambda: bool(far.heard))
        assert (far.heard[0].type, far.heard[0].data) == (aiohttp.WSMsgType.PONG, b"are you there")
        assert not link.ended


async def test_a_link_that_answers_a_ping_is_there_and_heard_of() -> None:
    async with linked() as (link, _, causes):
        before = link.heard
        assert await link.verify(PATIENCE)
        assert link.heard > before
        assert causes == []


async def test_a_link_that_does_not_answer_a_ping_is_gone() -> None:
    async with linked() as (link, far, causes):
        far.answers_pings = False
        assert not await link.verify(0.01)
        assert causes == ["ping_timeout"]
        assert not await link.verify(0.01)


async def test_a_link_that_is_silent_for_an_interval_is_pinged_and_kept_while_it_answers() -> None:
    async with linked() as (link, far, causes):
        pinging = asyncio.ensure_future(link.keep_alive(0.05))
        await until(lambda: sum(message.type is aiohttp.WSMsgType.PING for message in far.heard) >= 2)
        assert causes == []
        far.answers_pings = False
        await pinging
        assert causes == ["ping_timeout"]


async def test_a_link_that_ends_while_a_turn_waits_wakes_it() -> None:
    async with linked() as (link, _, causes):
        await link.send(b"{}")
        waiting = asyncio.ensure_future(link.wait())
        await asyncio.sleep(0)
        link.end("ping_timeout")
        with pytest.raises(LinkEnded, match="ping_timeout"):
            await waiting
        link.end("drain")
        assert causes == ["ping_timeout"]


async def test_a_socket_that_is_closed_already_takes_no_frame() -> None:
    async with linked() as (link, _, causes):
        await link._socket.close()
        with pytest.raises(LinkEnded) as ended:
            await link.send(b"{}")
        assert not ended.value.written
        assert len(causes) == 1


async def test_a_frame_whose_writing_fails_may_have_been_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise aiohttp.ClientConnectionResetError

    async with linked() as (link, _, causes):
        monkeypatch.setattr(link._socket, "send_frame", broken)
        with pytest.raises(LinkEnded, match="write_failed") as ended:
            await link.send(b"{}")
        assert ended.value.written
        assert causes == ["write_failed"]


async def test_reading_stops_while_too_much_is_unread_and_goes_on_when_half_of_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "MAX_BUFFERED", 10_000)
    async with linked() as (link, far, causes):
        await link.send(b"{}")
        sending = asyncio.ensure_future(send_all(far, 40))
        await until(lambda: not link._room.is_set())
        assert link._buffered <= 11_000
        pinging = asyncio.ensure_future(link.keep_alive(0.02))
        silent = link.heard
        await until(lambda: link.heard > silent)
        assert causes == []
        for _ in range(40):
            await next_frame(link)
        await sending
        assert link._buffered == 0
        link.end("drain")
        await pinging


async def send_all(far: Far, count: int) -> None:
    for _ in range(count):
        await far.socket.send_str("x" * 1000)


async def test_a_link_that_ends_while_it_is_not_read_lets_its_reader_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MAX_BUFFERED", 100)
    async with linked() as (link, far, causes):
        await link.send(b"{}")
        await far.socket.send_str("x" * 1000)
        await until(lambda: not link._room.is_set())
        link.end("client_gone")
        assert causes == ["client_gone"]


async def test_closing_says_the_code() -> None:
    async with linked() as (link, far, _):
        link.end("drain")
        await link.close(1001)
        await until(lambda: far.socket.close_code is not None)
        assert far.socket.close_code == 1001


async def test_a_link_shows_no_content_of_itself() -> None:
    async with linked() as (link, _, _):
        assert repr(link) == "<Link 1 free>"
        await link.send(b"{}")
        assert repr(link) == "<Link 1 in a turn>"
        link.end("drain")
        assert repr(link) == "<Link 1 drain>"


async def test_who_waits_until_a_moment_is_told_when_it_passes_without_a_frame() -> None:
    async with linked() as (link, far, _):
        await link.send(b"{}")
        assert await link.wait(monotonic() + 0.01) is False
        assert await link.wait(monotonic() - 1) is False
        await far.socket.send_str("1")
        assert await link.wait(monotonic() + PATIENCE) is True


async def test_a_moment_that_moves_away_with_each_frame_needs_no_timer_of_its_own() -> None:
    async with linked() as (link, far, _):
        await link.send(b"{}")
        timers = set()
        for number in range(3):
            waiting = asyncio.ensure_future(link.wait(monotonic() + PATIENCE + number))
            await asyncio.sleep(0)
            timers.add(link._alarm)
            await far.socket.send_str(str(number))
            assert await waiting is True
            assert link.arrived() == str(number).encode()
        assert len(timers) == 1
        assert await link.wait(monotonic() + 0.01) is False
        link.finish()
        assert link._alarm is None


async def test_a_ping_is_answered_while_a_large_frame_is_being_written_to_a_slow_reader() -> None:
    async with linked() as (link, far, causes):
        assert far.request.transport is not None
        far.request.transport.pause_reading()
        sending = asyncio.ensure_future(link.send(b"x" * 16 * 1024 * 1024))
        await until(lambda: link._unsent() > 0)
        before = link.heard
        await far.socket.ping(b"are you there")
        await until(lambda: link.heard > before)
        assert not sending.done()
        far.request.transport.resume_reading()
        await sending
        await until(lambda: len(far.heard) == 2)
        assert [(message.type, len(message.data)) for message in far.heard] == [
            (aiohttp.WSMsgType.TEXT, 16 * 1024 * 1024),
            (aiohttp.WSMsgType.PONG, len(b"are you there")),
        ]
        assert causes == []


async def test_a_frame_that_goes_on_being_written_is_no_silence_and_one_that_does_not_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with linked() as (link, far, causes):
        far.answers_pings = False
        left = [900, 700, 400, 100]
        monkeypatch.setattr(link, "_unsent", lambda: left.pop(0) if len(left) > 1 else left[0])
        link._sending = True
        await link.keep_alive(0.01)
        assert causes == ["ping_timeout"]
        assert left == [100]
