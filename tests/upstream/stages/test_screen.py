from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.helpers import SEALER, answer_of, items, post, serving, turn
from upstream.stages import compaction, pipeline, screen
from upstream.stages.items import output_item
from upstream.stages.screen import Screened, check, extend
from upstream.stages.screens import TEST_PHRASE
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from upstream.app import Running


class Spy:
    """Flags texts that hold its word, and remembers what it was asked."""

    def __init__(self, word: str = "bad") -> None:
        self.name = f"spy for {word}"
        self.word = word
        self.asked: list[str] = []

    def flags(self, text: str) -> bool:
        self.asked.append(text)
        return self.word in text


@pytest.fixture
async def screening() -> AsyncIterator[Running]:
    async with serving(screen="on") as running:
        yield running


_words = st.lists(st.sampled_from(["good", "fine", "bad", "worse", "ok"]), max_size=12)


@given(_words, _words)
def test_in_two_steps_it_is_the_same_as_in_one(a: list[str], b: list[str]) -> None:
    empty = Screened((Spy("bad"), Spy("worse")))

    assert extend(extend(empty, items(*a)), items(*b)) == extend(empty, items(*a, *b))


@given(_words, _words)
def test_a_pipeline_with_screens_is_a_fold_as_well(a: list[str], b: list[str]) -> None:
    empty = pipeline.Context(screened=Screened((Spy(),)))
    first, then = items(*a), items(*b)

    assert pipeline.extend(pipeline.extend(empty, first), then) == pipeline.extend(empty, first + then)


def test_only_new_items_are_looked_at() -> None:
    spy = Spy()
    context = pipeline.extend(pipeline.Context(screened=Screened((spy,))), items("one", "two"))
    pipeline.extend(context, items("three"))

    assert [text.strip() for text in spy.asked] == ["one", "two", "three"]


def test_a_flagged_conversation_stays_flagged_and_is_looked_at_no_more() -> None:
    spy = Spy()
    flagged = extend(Screened((spy,)), items("good", "bad", "good"))
    after = extend(flagged, items("good"))

    assert (after.flagged, after.items) == ("spy for bad", 2)
    assert len(spy.asked) == 2


def test_the_first_screen_that_flags_is_the_one_that_is_named() -> None:
    assert extend(Screened((Spy("x"), Spy("bad"), Spy("ba"))), items("bad")).flagged == "spy for bad"


def test_without_screens_nothing_is_read() -> None:
    assert extend(screen.EMPTY, items("bad")) is screen.EMPTY
    check(screen.EMPTY, "bad")


def test_a_compaction_keeps_the_verdict_and_is_not_a_way_to_look_again() -> None:
    spy = Spy()
    context = pipeline.extend(pipeline.Context(screened=Screened((spy,))), items("one", "two"))
    before = len(spy.asked)
    after = pipeline.extend(context, [compaction.compact(context, SEALER)])
    flagged = pipeline.extend(after, items("bad"))
    still = pipeline.extend(flagged, [compaction.compact(flagged, SEALER)])

    assert len(spy.asked) == before + 1
    assert (after.screened.flagged, still.screened.flagged) == ("", "spy for bad")


def test_every_text_of_an_item_is_read_and_nothing_else() -> None:
    spy = Spy()
    call = {"type": "function_call", "id": "fc_ID", "call_id": "c", "name": "run", "arguments": '{"a":1}'}
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "out"}]}
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    extend(
        Screened((spy,)),
        [*items({"role": "user", "content": [{"type": "input_text", "text": "in"}, picture]}, call, output)],
    )
    extend(Screened((spy,)), [output_item({"type": "reasoning", "summary": []}, hidden="thought")])

    assert [text.split() for text in spy.asked] == [["in"], ["run", '{"a":1}'], ["out"], ["thought"]]


def test_what_stands_beside_the_conversation_is_checked_too() -> None:
    with pytest.raises(ApiError) as caught:
        check(Screened((Spy("a bad word"),)), "instructions with a bad word")

    assert (caught.value.status, caught.value.code) == (400, "invalid_prompt")
    assert "spy" not in caught.value.message


async def test_over_http_it_is_the_apis_error(screening: Running, http: aiohttp.ClientSession) -> None:
    for body in ({"input": TEST_PHRASE}, {"input": "x", "instructions": TEST_PHRASE}):
        status, answer = await post(http, screening.url, model="sim", **body)
        assert status == 400
        assert (answer["error"]["code"], answer["error"]["type"]) == ("invalid_prompt", "invalid_request_error")
    status, _ = await post(http, screening.url, model="sim", input="x")
    assert status == 200


async def test_on_a_socket_it_is_an_error_frame_and_the_parent_is_gone(
    screening: Running, http: aiohttp.ClientSession
) -> None:
    async def refused(socket: aiohttp.ClientWebSocketResponse[bool], **body: Any) -> dict[str, Any]:
        await socket.send_str(json.dumps({"type": "response.create", "model": "sim", "store": False} | body))
        (frame,) = await answer_of(socket)
        return frame

    async with http.ws_connect(f"{screening.url}/v1/responses") as socket:
        first = (await turn(socket, model="sim", input="hi", store=False))[-1]["response"]["id"]
        flagged = await refused(socket, input=TEST_PHRASE, previous_response_id=first)
        gone = await refused(socket, input="hi", previous_response_id=first)
        again = await turn(socket, model="sim", input="hi", store=False)

    assert (flagged["status"], flagged["error"]["code"]) == (400, "invalid_prompt")
    assert gone["error"]["code"] == "previous_response_not_found"
    assert again[-1]["type"] == "response.completed"


async def test_it_is_off_by_default(server: Running, http: aiohttp.ClientSession) -> None:
    status, _ = await post(http, server.url, model="sim", input=TEST_PHRASE)

    assert status == 200
