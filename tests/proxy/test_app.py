"""A sidecar put together and taken down: what it says of turns, and how it ends."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from yarl import URL

from bench.speed import certificate
from proxy import app, turn
from proxy.settings import Address
from telemetry.logs import capture
from telemetry.traces import Tracing
from tests.support import rig as rig_of_tests
from tests.support.responses import user
from tests.support.rig import KEY, Rig, Talk, read, rigged, settings, until
from upstream.scripted import Play, message
from upstream.scripted.faults import CloseAfter, ErrorFirst, Hold, Silence
from wire.errors import server_error

if TYPE_CHECKING:
    from pathlib import Path


async def test_each_turn_is_one_line_that_says_how_it_went() -> None:
    with capture() as lines:
        async with rigged() as rig:
            talk = Talk(rig)
            await talk.say("a")
            got = await talk.say("b")
    turns = [line for line in lines if line["event"] == "turn"]
    assert len(turns) == 2
    last = turns[1]
    assert (last["transport"], last["reason"], last["status"], last["model"]) == ("delta", "", 200, "m")
    assert (last["items_covered"], last["items_sent"]) == (2, 1)
    assert last["request_id"] == got.headers["x-request-id"]
    assert last["log_level"] == "info"
    assert last["duration_s"] > 0


async def test_no_line_holds_content_or_a_key_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(turn: Any) -> Play:
        faults: dict[int, Any] = {
            2: ErrorFirst(server_error("unspeakable")),
            3: CloseAfter(5),
            4: CloseAfter(0, 1011),
        }
        return Play(items=[message("unspeakable")], faults=[faults[turn.number]] if turn.number in faults else ())

    async def failing(*_: object) -> None:
        raise RuntimeError(f"unspeakable {KEY}")

    with capture() as lines:
        async with rigged(script) as rig:
            talk = Talk(rig, instructions="unspeakable")
            for _ in range(5):
                await talk.say("unspeakable")
            await rig.post(b'{"unspeakable')
            await rig.post(b"unspeakable", content_encoding="gzip")
            monkeypatch.setattr(turn, "_planned", failing)
            rig.unserved.add(len(rig.bodies) + 1)
            assert (await talk.say("unspeakable")).status == 500
    assert len(lines) >= 9
    assert "unspeakable" not in str(lines)
    assert KEY not in str(lines)


async def test_a_failure_of_our_own_is_a_500_that_says_so_and_the_next_turn_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(*_: object) -> None:
        raise RuntimeError

    with capture() as lines:
        async with rigged() as rig:
            with monkeypatch.context() as patched:
                patched.setattr(turn, "_planned", failing)
                rig.unserved.add(1)
                got = await Talk(rig).say("a")
            assert (got.status, got.own_error, got.fault["code"]) == (500, "internal", "internal")
            assert (await Talk(rig).say("a")).status == 200
            assert (await rig.metrics())("deltawire_errors_total", error="internal") == 1
    assert [line["exception"][0]["type"] for line in lines if line["event"] == "turn failed"] == ["RuntimeError"]


async def test_a_failure_of_our_own_in_a_stream_breaks_the_stream_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError

    async with rigged() as rig:
        monkeypatch.setattr("proxy.flight.head_of", lambda *_, **__: broken(_))
        async with rig.open(rig.body([user("a")], stream=True)) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await rig.quiet()
        assert all(state == "IDLE" for state in rig.states)


async def test_every_answer_of_a_turn_has_a_request_id() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        gots = [await talk.say("a"), await talk.say("b"), await rig.post(b"{"), await rig.post(b'{"input":1}')]
        rig.checked = False
        ids = [got.headers["x-request-id"] for got in gots]
        assert len(set(ids)) == 4
        assert all(one.startswith("req_") for one in ids)


async def test_one_connection_of_a_client_serves_turns_errors_and_everything_else_one_after_the_other() -> None:
    async with rigged(max_body=100_000) as rig, aiohttp.ClientSession() as kept:
        rig.checked = False
        for _ in range(3):
            for body, status in ((b"{", 400), (rig.body("a"), 200), (b"{}", 200), (rig.body("a", stream=True), 200)):
                async with kept.post(rig.url, data=body) as answer:
                    assert (await answer.read(), answer.status)[1] == status
            async with kept.get(f"{rig.running.url}/v1/models") as answer:
                assert (await answer.read(), answer.status)[1] == 404
        assert len(rig.running.sidecar._runners[0].server.connections) == 1  # type: ignore[union-attr]
        async with kept.post(rig.url, data=b" " * 200_000) as answer:
            assert answer.status == 413
        async with kept.post(rig.url, data=rig.body("a")) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("transport", ["auto", "http"])
async def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_its_connection(transport: str) -> None:
    async with rigged(transport=transport) as rig:
        body = rig.body("a", stream=True)
        host, port = rig.running.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/responses HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, _, events = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert b"transfer-encoding" not in head.lower()
        assert (events.count(b"event: "), events[-2:]) == (11, b"\n\n")


async def test_no_answer_names_the_library_that_the_sidecar_is_made_of() -> None:
    async with rigged() as rig:
        rig.checked = False
        for body in (rig.body("a"), b"{"):
            async with rig.session.post(rig.url, data=body) as answer:
                assert "server" not in answer.headers


async def test_a_client_that_leaves_within_its_body_is_no_error() -> None:
    with capture() as lines:
        async with rigged() as rig:
            host, port = rig.running.url.removeprefix("http://").split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            await until(lambda: bool(rig.running.sidecar._active))
            writer.transport.abort()
            await until(lambda: not rig.running.sidecar._active)
            assert (await rig.metrics())("deltawire_clients_gone_total") == 1
    assert {line["log_level"] for line in lines} == {"info"}


async def test_control_headers_from_outside_choose_nothing_and_go_nowhere() -> None:
    async with rigged() as rig:
        talk = Talk(rig)
        got = await talk.say("a", x_deltawire_transport="http", x_deltawire_error="x", x_deltawire_features="envelope")
        assert got.way == ("full", "first_turn")
        assert got.own_error is None
        await rig.refuse_links()
        await talk.say("b", x_deltawire_transport="delta")
        for headers in (*rig.up.upgrade_attempts, rig.up.turns[1].headers):
            assert not any(name.startswith("x-deltawire") for name in headers)


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
async def test_turns_are_served_with_and_without_the_version_in_the_path(path: str) -> None:
    async with rigged() as rig, rig.session.post(f"{rig.running.url}{path}", data=rig.body("a")) as answer:
        assert (await read(answer)).way == ("full", "first_turn")


async def test_a_turn_is_a_span_below_the_clients_own() -> None:
    exporter = InMemorySpanExporter()
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with rigged(tracing=Tracing.to_exporter(exporter)) as rig:
        await Talk(rig).say("a", traceparent=f"00-{trace}-b7ad6b7169203331-01")
    (span,) = exporter.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == trace
    assert span.parent is not None


@pytest.mark.parametrize("traced", [True, False])
async def test_a_turn_by_http_names_its_span_to_the_upstream_or_lets_the_clients_trace_through(*, traced: bool) -> None:
    exporter = InMemorySpanExporter()
    trace, state = "0af7651916cd43dd8448eb211c80319c", "vendor=1"
    sent = f"00-{trace}-b7ad6b7169203331-01"
    async with rigged(transport="http", tracing=Tracing.to_exporter(exporter) if traced else None) as rig:
        await Talk(rig).say("a", Traceparent=sent, tracestate=state)
        heard = rig.up.turns[0].headers
    spans = [f"00-{trace}-{span.context.span_id:016x}-01" for span in exporter.get_finished_spans()]
    assert (heard["traceparent"], heard["tracestate"]) == ((*spans, sent)[0], state)
    assert len(spans) == traced


@pytest.mark.parametrize("stream", [True, False])
async def test_closing_lets_running_turns_end_and_takes_no_new_ones(*, stream: bool) -> None:
    gate = asyncio.Event()
    async with rigged(lambda _: Play(items=[message("m")], faults=[Hold(gate, 5)])) as rig:
        running = asyncio.ensure_future(Talk(rig, stream=stream).say("a"))
        await rig.up.until(lambda: bool(rig.up.turns) and rig.up.turns[0].events_sent == 5)
        closing = asyncio.ensure_future(rig.running.close())
        await until(lambda: rig.running.sidecar.draining)
        rig.unserved.add(2)
        refused = await Talk(rig).say("b")
        assert (refused.status, refused.own_error) == (503, "shutting_down")
        value = await rig.metrics()
        assert value("deltawire_errors_total", error="shutting_down") == 1
        async with rig.session.get(f"{rig.running.admin_url}/readyz") as ready:
            assert ready.status == 503
        assert not closing.done()
        gate.set()
        got = await running
        assert (got.status, got.response["status"]) == (200, "completed")
        await closing
        with pytest.raises(aiohttp.ClientConnectionError):
            await Talk(rig).say("c")
        rig.unserved.add(3)
    assert rig.up.connections[0].close_code == 1001


async def test_a_stream_that_outlasts_the_drain_time_ends_as_failed() -> None:
    async with (
        rigged(lambda _: Play(items=[message("m")], faults=[Silence(5)]), drain=0.0) as rig,
        rig.open(rig.body([user("a")], stream=True)) as answer,
    ):
        begun = await answer.content.readany()
        await rig.running.close()
        got = await read(answer)
        assert begun.startswith(b"event: response.created")
        assert (got.status, got.types[-1]) == (200, "response.failed")


@pytest.mark.parametrize(("stream", "events"), [(True, 2), (False, 5)])
async def test_a_turn_that_outlasts_the_drain_time_unseen_ends_as_a_lost_link_does(
    *, stream: bool, events: int
) -> None:
    async with rigged(lambda _: Play(items=[message("m")], faults=[Silence(events)]), drain=0.0) as rig:
        running = asyncio.ensure_future(Talk(rig, stream=stream).say("a"))
        await rig.up.until(lambda: bool(rig.up.turns) and rig.up.turns[0].events_sent == events)
        await rig.running.close()
        got = await running
        assert (got.status, got.own_error) == (502, "link_lost")


async def test_a_request_that_passes_through_does_not_hold_up_the_end_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_LAST_WORDS", 0.05)
    begun = asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        begun.set()
        await asyncio.Event().wait()
        return web.Response()

    upstream = web.Application()
    upstream.router.add_get("/v1/models", never)
    runner = web.AppRunner(upstream, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with rigged(url=f"http://{host}:{port}/v1", drain=0.0) as rig:
        asking = asyncio.ensure_future(rig.session.get(f"{rig.running.url}/v1/models"))
        await begun.wait()
        await rig.running.close()
        with pytest.raises(aiohttp.ClientError):
            await asking
    await runner.cleanup()


async def test_a_private_authority_of_the_environment_is_trusted_for_links_as_for_plain_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = certificate.make(tmp_path, ["127.0.0.1"])
    rigs: list[Rig] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def ending(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = await asyncio.open_connection("127.0.0.1", URL(rigs[0].up.url).port)
        await asyncio.gather(pump(reader, far[1]), pump(far[0], writer))

    monkeypatch.setattr(rig_of_tests, "_TLS", ssl.create_default_context)
    async with await asyncio.start_server(ending, "127.0.0.1", 0, ssl=certificate.for_server(tmp_path)) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        for known in (False, True):
            if known:
                monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
            async with rigged(url=url) as rig:
                rigs[:] = [rig]
                rig.checked = known
                got = await Talk(rig).say("a")
                assert (got.status, got.way[0]) == ((200, "full") if known else (502, "http"))
                async with rig.session.get(f"{rig.running.url}/v1/models") as answer:
                    assert answer.status == (404 if known else 502)


async def test_an_address_that_is_taken_is_an_error_that_leaves_nothing_behind() -> None:
    async with rigged() as rig:
        port = int(rig.running.url.rsplit(":", 1)[1])
        with pytest.raises(OSError, match="address already in use"):
            await app.start(settings(rig.up.url, admin=Address("127.0.0.1", port)))


async def test_a_state_url_that_names_no_redis_is_an_error_that_leaves_nothing_behind() -> None:
    with pytest.raises(ValueError, match="redis"):
        await app.start(settings("http://127.0.0.1:1/v1", state="mongodb://x"))
