from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest

from tests.upstream.helpers import answer_of, post, serving, turn
from upstream.access.gate import Gate
from upstream.access.keys import Keyring, Made, make
from upstream.app import Running, start
from upstream.settings import UpstreamSettings
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

UNKNOWN = "resp_" + "0" * 50


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def entry(made: Made, **values: Any) -> Made:
    return Made(made.key, msgspec.structs.replace(made.entry, **values))


def bearer(made: Made) -> dict[str, str]:
    return {"authorization": f"Bearer {made.key}"}


@pytest.fixture
def one() -> Made:
    return entry(make("one"), models=("sim", "m"))


@pytest.fixture
def two() -> Made:
    return make("two")


@pytest.fixture
def few() -> Made:
    return entry(make("few"), requests_per_minute=2, tokens_per_minute=10_000)


@pytest.fixture
async def guarded(tmp_path: Path, one: Made, two: Made, few: Made) -> AsyncIterator[Running]:
    file = tmp_path / "keys.json"
    file.write_bytes(msgspec.json.encode({"keys": [made.entry for made in (one, two, few)]}))
    async with serving(keys=str(file)) as running:
        yield running


# The gate by itself


def test_without_keys_any_credentials_are_an_owner_of_their_own() -> None:
    gate = Gate()
    owners = {gate.enter(text) for text in ("", "Bearer a", "Bearer b", "Bearer \udcff")}

    assert len(owners) == 4
    assert gate.enter("Bearer a") in owners
    for owner in owners:
        gate.begin(owner)
        gate.permit(owner, "any")
        gate.spend(owner, 10**9)
        gate.spent(owner, 10**9)
        assert gate.headers(owner) == {}
        assert gate.visible(owner, ["a", "b"]) == ["a", "b"]


def test_an_owner_is_the_key_however_its_header_is_written(one: Made, two: Made) -> None:
    gate = Gate(Keyring([one.entry, two.entry]))

    assert gate.enter(f"Bearer {one.key}") == gate.enter(f"bearer  {one.key}")
    assert gate.enter(f"Bearer {one.key}") != gate.enter(f"Bearer {two.key}")


def test_an_owner_that_never_entered_may_nothing(one: Made) -> None:
    gate = Gate(Keyring([one.entry]))
    asks: list[Callable[[], None]] = [
        lambda: gate.begin(b"x"),
        lambda: gate.permit(b"x", "m"),
        lambda: gate.spend(b"x", 1),
    ]
    for ask in asks:
        with pytest.raises(ApiError) as caught:
            ask()
        assert caught.value.code == "invalid_api_key"
    gate.spent(b"x", 1)
    assert gate.headers(b"x") == {}


def test_limits_are_each_keys_own(few: Made) -> None:
    clock = Clock()
    other = entry(make("other"), requests_per_minute=1)
    gate = Gate(Keyring([few.entry, other.entry]), clock)
    mine, theirs = gate.enter(f"Bearer {few.key}"), gate.enter(f"Bearer {other.key}")
    gate.begin(mine)
    gate.begin(mine)
    with pytest.raises(ApiError):
        gate.begin(mine)
    gate.begin(theirs)
    clock.now += 30
    gate.begin(mine)
    with pytest.raises(ApiError):
        gate.begin(theirs)


def test_entering_again_does_not_fill_the_bucket(few: Made) -> None:
    gate = Gate(Keyring([few.entry]), Clock())
    for _ in range(2):
        gate.begin(gate.enter(f"Bearer {few.key}"))

    assert gate.headers(gate.enter(f"Bearer {few.key}"))["x-ratelimit-remaining-requests"] == "0"


def test_tokens_written_beyond_the_limit_are_waited_for(few: Made) -> None:
    gate = Gate(Keyring([few.entry]), Clock())
    owner = gate.enter(f"Bearer {few.key}")
    gate.spend(owner, 9_000)
    gate.spent(owner, 5_000)
    with pytest.raises(ApiError) as caught:
        gate.spend(owner, 10)

    assert caught.value.headers["retry-after"] == "25"


# The gate before a server


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}])
async def test_no_path_but_health_is_open_to_those_without_a_key(
    guarded: Running, http: aiohttp.ClientSession, header: dict[str, str]
) -> None:
    paths = ["responses", "responses/x", "responses/x/input_items", "models", "models/sim", "nowhere"]
    for method, path in [("POST", "responses"), ("DELETE", "responses/x"), *(("GET", path) for path in paths)]:
        async with http.request(method, f"{guarded.url}/v1/{path}", headers=header) as answer:
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            error = (await answer.json())["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        assert error["code"] == ("invalid_api_key" if header else None)
    async with http.get(f"{guarded.url}/healthz") as answer:
        assert answer.status == 200


async def test_a_handshake_without_a_key_is_401(guarded: Running, http: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await http.ws_connect(f"{guarded.url}/v1/responses", headers={"authorization": "Bearer wrong"})

    assert caught.value.status == 401


async def test_a_model_that_is_not_for_the_key_is_as_one_that_does_not_exist(
    guarded: Running, http: aiohttp.ClientSession, one: Made, two: Made
) -> None:
    async with http.post(
        f"{guarded.url}/v1/responses", json={"model": "gpt-5.5", "input": "x"}, headers=bearer(one)
    ) as answer:
        assert answer.status == 404
        error = (await answer.json())["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    seen = {}
    for made in (one, two):
        async with http.get(f"{guarded.url}/v1/models", headers=bearer(made)) as answer:
            seen[made.entry.name] = [model["id"] for model in (await answer.json())["data"]]
        async with http.get(f"{guarded.url}/v1/models/gpt-5.5", headers=bearer(made)) as answer:
            assert answer.status == (404 if made is one else 200)
    assert seen == {"one": ["sim"], "two": ["gpt-5.2", "gpt-5.5", "sim"]}


async def test_the_model_is_checked_in_every_frame(guarded: Running, http: aiohttp.ClientSession, one: Made) -> None:
    async with http.ws_connect(f"{guarded.url}/v1/responses", headers=bearer(one)) as socket:
        assert (await turn(socket, model="sim", input="x"))[-1]["type"] == "response.completed"
        (refused,) = await turn(socket, model="gpt-5.5", input="x")
        assert (refused["status"], refused["error"]["code"]) == (404, "model_not_found")
        assert (await turn(socket, model="m", input="x"))[-1]["type"] == "response.completed"


async def test_what_another_key_has_is_what_nobody_has(
    guarded: Running, http: aiohttp.ClientSession, one: Made, two: Made
) -> None:
    async def told(method: str, path: str, **body: Any) -> tuple[int, str]:
        async with http.request(method, f"{guarded.url}/v1/{path}", headers=bearer(two), json=body or None) as answer:
            return answer.status, await answer.text()

    async with http.post(
        f"{guarded.url}/v1/responses", json={"model": "sim", "input": "x"}, headers=bearer(one)
    ) as made:
        response = await made.json()
    foreign, item = response["id"], response["output"][0]["id"]
    reference = [{"type": "item_reference", "id": item}]
    unknown = [{"type": "item_reference", "id": "msg_0"}]
    for method, path in [("GET", "{}"), ("DELETE", "{}"), ("GET", "{}/input_items")]:
        theirs = await told(method, "responses/" + path.format(foreign))
        nobodys = await told(method, "responses/" + path.format(UNKNOWN))
        assert theirs[0] == 404
        assert theirs == (nobodys[0], nobodys[1].replace(UNKNOWN, foreign))
    theirs = await told("POST", "responses", model="sim", input="x", previous_response_id=foreign)
    nobodys = await told("POST", "responses", model="sim", input="x", previous_response_id=UNKNOWN)
    assert theirs == (nobodys[0], nobodys[1].replace(UNKNOWN, foreign))
    theirs = await told("POST", "responses", model="sim", input=reference)
    nobodys = await told("POST", "responses", model="sim", input=unknown)
    assert theirs == (nobodys[0], nobodys[1].replace("msg_0", item))
    async with http.ws_connect(f"{guarded.url}/v1/responses", headers=bearer(two)) as socket:
        (frame,) = await turn(socket, model="sim", input="x", previous_response_id=foreign)
    assert frame["error"]["code"] == "previous_response_not_found"


async def test_limits_stand_in_the_headers_and_the_third_request_is_429(
    guarded: Running, http: aiohttp.ClientSession, few: Made
) -> None:
    left = []
    for stream in (False, True):
        async with http.post(
            f"{guarded.url}/v1/responses", json={"model": "sim", "input": "x", "stream": stream}, headers=bearer(few)
        ) as answer:
            assert answer.status == 200
            left.append(answer.headers["x-ratelimit-remaining-requests"])
            assert answer.headers["x-ratelimit-limit-tokens"] == "10000"
            assert int(answer.headers["x-ratelimit-remaining-tokens"]) < 10_000
            await answer.read()
    assert left == ["1", "0"]
    async with http.post(f"{guarded.url}/v1/responses", json={}, headers=bearer(few)) as answer:
        assert answer.status == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        error = (await answer.json())["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "requests")


async def test_on_a_socket_the_envelope_of_the_error_carries_the_headers(
    guarded: Running, http: aiohttp.ClientSession, few: Made
) -> None:
    async with http.ws_connect(f"{guarded.url}/v1/responses", headers=bearer(few)) as socket:
        for _ in range(2):
            assert (await turn(socket, model="sim", input="x"))[-1]["type"] == "response.completed"
        await socket.send_str(json.dumps({"type": "response.create", "model": "sim", "input": "x"}))
        (frame,) = await answer_of(socket)

    assert frame["status"] == 429
    assert frame["headers"] == frame["error"]["headers"]
    assert 1 <= int(frame["headers"]["retry-after"]) <= 30
    assert frame["headers"]["x-ratelimit-limit-requests"] == "2"


@pytest.mark.parametrize("path", ["responses", "responses/compact", "responses/input_tokens"])
@pytest.mark.parametrize(
    ("body", "coding"), [(b"{not json", ""), (b'{"model": 5}', ""), (b"{}", "gzip"), (b"{}", "unknown")]
)
async def test_a_request_that_is_refused_counts_as_well_and_once(
    guarded: Running, http: aiohttp.ClientSession, few: Made, *, path: str, body: bytes, coding: str
) -> None:
    headers = bearer(few) | ({"content-encoding": coding} if coding else {})
    left = []
    for _ in range(3):
        async with http.post(f"{guarded.url}/v1/{path}", data=body, headers=headers) as answer:
            left.append((answer.headers["x-ratelimit-remaining-requests"], answer.status == 429))

    assert left == [("1", False), ("0", False), ("0", True)]


@pytest.mark.parametrize(
    "frame",
    [
        "{not json",
        b"not text",
        '{"type": "nothing"}',
        '{"type": "response.create", "stream_id": "!", "model": "sim", "input": "x"}',
        '{"type": "response.create", "background": true, "model": "sim", "input": "x"}',
        '{"type": "response.create", "model": "other", "input": 5}',
        '{"type": "response.create", "deltawire_envelope": {"tools": "unknown"}, "model": "sim", "input": "x"}',
    ],
)
async def test_a_frame_that_is_refused_counts_as_well_and_once(
    guarded: Running, http: aiohttp.ClientSession, few: Made, frame: str | bytes
) -> None:
    statuses = []
    async with http.ws_connect(f"{guarded.url}/v1/responses", headers=bearer(few)) as socket:
        for _ in range(3):
            await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame))
            (error,) = await answer_of(socket)
            statuses.append(error["status"] == 429)

    assert statuses == [False, False, True]


async def test_frames_that_find_no_place_to_wait_count_too(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    made = entry(make("few"), requests_per_minute=3)
    file = tmp_path / "keys.json"
    file.write_bytes(msgspec.json.encode({"keys": [made.entry]}))
    async with (
        serving(keys=str(file), queue_frames=0) as server,
        http.ws_connect(f"{server.url}/v1/responses", headers=bearer(made)) as socket,
    ):
        for left in ("2", "1", "0"):
            await socket.send_str('{"type": "response.create", "model": "sim", "input": "x"}')
            (error,) = await answer_of(socket)
            assert error["error"]["code"] == "too_many_requests"
            async with http.post(f"{server.url}/v1/responses/none/cancel", headers=bearer(made)) as answer:
                assert answer.headers["x-ratelimit-remaining-requests"] == left


async def test_an_input_that_is_larger_than_the_limit_never_passes(
    guarded: Running, http: aiohttp.ClientSession, few: Made
) -> None:
    async with http.post(
        f"{guarded.url}/v1/responses", json={"model": "sim", "input": "x " * 50_000}, headers=bearer(few)
    ) as answer:
        assert answer.status == 429
        assert answer.headers["x-should-retry"] == "false"
        assert (await answer.json())["error"]["type"] == "tokens"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff", "not text in UTF-8"),
        (b"nothing", "neither JSON nor TOML"),
        (None, "No such file or directory"),
    ],
)
async def test_a_file_that_cannot_be_used_is_told_by_its_name(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=told) as caught:
        await start(UpstreamSettings(port=0, keys=str(file)))

    assert str(caught.value).startswith(f"--keys: {file}: ")


async def test_without_keys_any_bearer_is_taken_as_before(server: Running, http: aiohttp.ClientSession) -> None:
    status, _ = await post(http, server.url, model="any", input="x")

    assert status == 200


def test_gates_with_one_secret_know_an_owner_by_the_same_digest() -> None:
    one, same, other, random = (Gate(secret=secret).enter("Bearer k") for secret in ("s" * 16, "s" * 16, "o" * 16, ""))

    assert one == same
    assert len({one, other, random}) == 3
