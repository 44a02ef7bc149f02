import aiohttp
import pytest

from tests.support.responses import sse_events
from upstream.scripted import Play, ScriptedUpstream, message
from upstream.scripted.faults import CloseAfter, EmptyOutput, ErrorAfter, ErrorFirst, Failed, Fault, Spaced, Stray
from wire.errors import ApiError, previous_not_found

LIMITED = ApiError(429, "Slow down.", code="slow_down", headers={"retry-after": "7"})


def _up(*faults: Fault) -> ScriptedUpstream:
    return ScriptedUpstream([Play(items=[message("hello")], faults=faults)])


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_before_any_event_is_an_http_error(http: aiohttp.ClientSession, *, stream: bool) -> None:
    async with (
        _up(ErrorFirst(LIMITED)) as up,
        http.post(f"{up.url}/responses", json={"input": "a", "stream": stream}) as response,
    ):
        assert (response.status, response.headers["retry-after"]) == (429, "7")
        assert (await response.json())["error"]["code"] == "slow_down"


async def test_an_error_within_a_stream_is_a_flat_event(http: aiohttp.ClientSession) -> None:
    async with (
        _up(ErrorAfter(LIMITED, 3)) as up,
        http.post(f"{up.url}/responses", json={"input": "a", "stream": True}) as response,
    ):
        *_, (kind, data) = [event async for event in sse_events(response)]
    assert kind == "error"
    assert data == {
        "type": "error",
        "code": "slow_down",
        "message": "Slow down.",
        "param": None,
        "sequence_number": 3,
    }


async def test_an_error_within_an_answer_is_the_status_of_a_json_body(http: aiohttp.ClientSession) -> None:
    async with _up(ErrorAfter(LIMITED, 3)) as up, http.post(f"{up.url}/responses", json={"input": "a"}) as response:
        assert response.status == 429


async def test_a_failed_response_is_a_body_like_any_other(http: aiohttp.ClientSession) -> None:
    async with _up(Failed()) as up, http.post(f"{up.url}/responses", json={"input": "a"}) as response:
        assert (response.status, (await response.json())["status"]) == (200, "failed")


async def test_a_json_body_has_the_output_even_when_the_end_does_not_say_it(http: aiohttp.ClientSession) -> None:
    async with _up(EmptyOutput()) as up, http.post(f"{up.url}/responses", json={"input": "a"}) as response:
        assert len((await response.json())["output"]) == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fault", [CloseAfter(0), CloseAfter(3, 1011)])
async def test_a_broken_answer_is_a_broken_connection(
    http: aiohttp.ClientSession, fault: CloseAfter, *, stream: bool
) -> None:
    async with _up(fault) as up:
        with pytest.raises(aiohttp.ClientError):
            async with http.post(f"{up.url}/responses", json={"input": "a", "stream": stream}) as response:
                await response.read()
        assert up.turns[0].outcome == "broken"


async def test_spaced_events_stand_on_one_line_of_a_stream(http: aiohttp.ClientSession) -> None:
    async with (
        _up(Spaced()) as up,
        http.post(f"{up.url}/responses", json={"input": "a", "stream": True}) as response,
    ):
        raw = await response.read()
    assert all(block.count(b"\n") == 1 for block in raw.strip().split(b"\n\n"))


async def test_what_is_no_event_has_no_type_in_a_stream(http: aiohttp.ClientSession) -> None:
    async with (
        _up(Stray(after=1), Stray(b"\x00", after=1, binary=True)) as up,
        http.post(f"{up.url}/responses", json={"input": "a", "stream": True}) as response,
    ):
        assert b"\n\ndata: {not json\n\n" in await response.read()


async def test_frames_end_by_reset_or_by_the_closing_handshake(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream([Play(faults=[CloseAfter(1, 1001)]), Play(faults=[CloseAfter(1)])]) as up:
        kinds = []
        for _ in range(2):
            async with http.ws_connect(f"{up.url}/responses") as socket:
                await socket.send_str('{"type":"response.create","input":[]}')
                await socket.receive()
                kinds.append((await socket.receive()).type)
    assert kinds[0] is aiohttp.WSMsgType.CLOSE
    assert kinds[1] in {aiohttp.WSMsgType.ERROR, aiohttp.WSMsgType.CLOSED}


async def test_a_refusal_of_the_rules_is_an_http_error_as_well(http: aiohttp.ClientSession) -> None:
    body = {"input": "a", "previous_response_id": "resp_none"}
    async with ScriptedUpstream() as up, http.post(f"{up.url}/responses", json=body) as response:
        assert response.status == 400
        assert await response.read() == previous_not_found("resp_none").http_body()
