"""What `deltawire explain` says, and that it says what the sidecar itself would do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialect import OPEN_RESPONSES
from proxy.explain import Verdict, explain
from proxy.plan import Rules, plan
from proxy.request import read
from state.commit import head_of
from state.digest import Keyed
from state.envelope import EnvelopeReader
from state.heads import Head, HeadIndex
from state.match import Matcher
from telemetry.reasons import REASONS
from wire.split import Malformed

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "hunter2"}
NEXT: Json = {"type": "function_call_output", "call_id": "c", "output": "hunter2"}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "encrypted_content": "hunter2", "summary": []}


def body(items: list[Json] | str, **members: Any) -> bytes:
    return json.dumps({"model": "m"} | members | {"input": items}).encode()


def answer(*items: Json) -> bytes:
    return json.dumps({"id": "resp_1", "output": items}).encode()


def lines(first: bytes, second: bytes, answered: bytes | None = None, *, show: bool = False) -> list[str]:
    found = explain(first, second, answered, show=show)
    assert found.delta == found.lines[0].startswith("delta: ")
    return list(found.lines)


def test_a_delta_tells_what_is_covered_and_what_is_new() -> None:
    expected = [
        "delta: 3 items covered (1 sent before, 2 answered), 2 new",
        "  new $.input[3]: function_call_output",
        "  new $.input[4]: message",
    ]
    second = body([USER, THOUGHT, CALL, NEXT, USER])
    assert lines(body([USER]), second) == expected
    assert lines(body([USER]), second, answer(THOUGHT, CALL)) == expected
    assert lines(body("hunter2"), second) == expected


@pytest.mark.parametrize(
    ("second", "answered", "said"),
    [
        (body([USER, CALL, NEXT], model="n"), None, "envelope_changed): $.model differs"),
        (body([USER, CALL, NEXT], tools=[]), None, "envelope_changed): $.tools differs"),
        (body([USER, CALL, NEXT], previous_response_id="r"), None, "client_state): the second body refers to state"),
        (body([]), None, "first_turn): the second input ends before $.input[0]"),
        (body([USER | {"content": "x"}]), None, "first_turn): $.input[0].content[0].text differs"),
        (body([USER | {"content": "x"}, CALL, NEXT]), None, "unknown_head): $.input[0].content[0].text differs"),
        (body([USER, NEXT]), None, "first_turn): no answer of the upstream follows the known input"),
        (body([USER]), None, "first_turn): no answer of the upstream follows the known input"),
        (body([USER, CALL]), None, "empty_delta): nothing is new after the echo of the answer"),
        (body([USER, CALL]), answer(CALL), "empty_delta): nothing is new after the echo of the answer"),
        (
            body([USER, CALL, NEXT]),
            answer(THOUGHT, CALL),
            "reasoning_dropped): the answer is echoed without its reason",
        ),
        (
            body([USER, THOUGHT, CALL]),
            answer(CALL, THOUGHT),
            "output_reordered): the answer is echoed in another order",
        ),
        (
            body([USER, CALL | {"name": "g"}, NEXT]),
            answer(CALL),
            "history_diverged): $.input[1].name is not the echo of $.output[0]",
        ),
        (
            body([USER, NEXT, CALL]),
            answer(CALL),
            "history_diverged): $.input[1].type is not the echo of $.output[0]",
        ),
        (
            body([USER, CALL]),
            answer(CALL, THOUGHT, CALL),
            "history_diverged): the second input ends before $.input[2]",
        ),
    ],
)
def test_what_is_no_delta_says_why_and_where(second: bytes, answered: bytes | None, said: str) -> None:
    (line,) = lines(body([USER]), second, answered)
    assert line.startswith(f"no delta ({said}")
    assert line[len("no delta (") : line.index(")")] in REASONS


def test_free_members_and_spelling_do_not_matter() -> None:
    second = json.dumps({"input": [USER, CALL, NEXT], "user": "u", "model": "m", "temperature": 1}, indent=2).encode()
    assert lines(body([USER]), second)[0].startswith("delta")


def test_references_stand_for_the_answer() -> None:
    second = body([USER, {"type": "item_reference", "id": "rs_1"}, {"id": "fc_1"}, NEXT])
    assert lines(body([USER]), second, answer(THOUGHT, CALL))[0].startswith("delta: 3 items covered")
    (line,) = lines(body([USER]), second, answer(CALL, THOUGHT))
    assert "history_diverged" in line or "output_reordered" in line


@pytest.mark.parametrize(
    "item",
    [
        '{"type":"hunter2 hunter2\\u001b[2J"}',
        '{"type":{"hunter2":1}}',
        '{"type":"a","type":"hunter2"}',
        '{"role":"hunter2","content":1}',
        '{"x":"hunter2"}',
    ],
)
def test_no_content_is_told_of_any_item(item: str) -> None:
    second = b'{"model":"m","input":[%b]}' % b",".join([*map(bytes_of, (USER, CALL, NEXT)), item.encode()])
    for answered in (None, answer(CALL), answer(THOUGHT, CALL), answer(CALL, NEXT)):
        told = "\n".join(lines(body([USER]), second, answered))
        assert "hunter2" not in told
        assert "\x1b" not in told


def test_content_is_told_when_it_is_asked_for() -> None:
    assert "hunter2" in lines(body([USER]), body([USER, CALL, NEXT]), show=True)[1]


@pytest.mark.parametrize(
    ("first", "second", "answered", "said"),
    [
        (b"{", body([]), None, "the first body: "),
        (body([]), b"\xff", None, "the second body: "),
        (body([]), b"{}", None, "the second body has no input that turns have"),
        (body([]), body([], tools=[]).replace(b"[]", b'{"a":1,"a":2}', 1), None, "a member cannot be read exactly"),
        (body([]), b'{"input":[5]}', None, "the second body: an item is not an object"),
        (body([]), body([CALL]), b"[]", "the answer: "),
        (body([]), body([CALL]), b'{"output":5}', "the answer: "),
        (body([]), body([CALL]), b'{"error":{}}', "the answer: it has no output"),
    ],
)
def test_what_cannot_be_read_is_named(first: bytes, second: bytes, answered: bytes | None, said: str) -> None:
    with pytest.raises(Malformed) as raised:
        explain(first, second, answered)
    assert raised.value.reason.startswith(said)
    assert "\n" not in raised.value.reason


def bytes_of(item: Json) -> bytes:
    return json.dumps(item).encode()


# What the sidecar would do


class Free:
    """Every link is free and holds what it held."""

    def reason_against(self, _: Head) -> str:
        return ""

    def warm(self, _: bytes) -> bool:
        return True


def way(first: bytes, second: bytes, answered: list[Json]) -> str:
    """The reason that a sidecar gives for the second turn; empty for a delta."""
    keyed, index, before, after = Keyed(b"secret"), HeadIndex(10**6), read(first), read(second)
    matcher, envelopes = Matcher(keyed, index), EnvelopeReader(keyed)
    head = head_of(
        keyed,
        matcher.read(b"t" * 16, before.input),
        tenant=b"t" * 16,
        envelope=envelopes.read(before.members),
        response_id="resp_1",
        stored=True,
        answer=[(bytes_of(item),) for item in answered],
        link=1,
    )
    assert head is not None
    index.add(head)
    envelope = envelopes.read(after.members)
    reading = matcher.read(b"t" * 16, after.input)
    return plan(
        after, reading, envelope=envelope, tenant=b"t" * 16, places=Free(), rules=Rules(dialect=OPEN_RESPONSES)
    ).reason


def said(verdict: Verdict) -> str:
    match = re.match(r"no delta \((\w+)\)", verdict.lines[0])
    return match[1] if match else ""


_SPOKEN = [{"type": "message", "role": "assistant", "id": f"msg_{n}", "content": f"t{n}"} for n in range(2)]
_ANSWERS = st.lists(st.sampled_from([THOUGHT, THOUGHT | {"id": "rs_2"}, CALL, *_SPOKEN]), min_size=1, max_size=4)
_EXTRA = st.lists(st.sampled_from([USER, NEXT, CALL]), max_size=2)
_FIRST = st.lists(st.sampled_from([USER, NEXT]), min_size=1, max_size=2)


@given(_FIRST, _ANSWERS, _EXTRA, st.data())
def test_the_verdict_on_an_echo_is_what_a_sidecar_does(
    first: list[Json], answered: list[Json], extra: list[Json], data: st.DataObject
) -> None:
    kinds = ["as it is", "shuffled", "without reasoning", "cut", "referred"]
    kind = data.draw(st.sampled_from(kinds))
    echo = {
        "as it is": answered,
        "shuffled": data.draw(st.permutations(answered)),
        "without reasoning": [item for item in answered if item["type"] != "reasoning"],
        "cut": answered[:-1],
        "referred": [{"type": "item_reference", "id": item["id"]} for item in answered],
    }[kind]
    one, two = body(first), body([*first, *echo, *extra], model=data.draw(st.sampled_from(["m", "m", "m", "n"])))
    assert said(explain(one, two, answer(*answered))) == way(one, two, answered)
