"""The envelope: the written policy covers the API, and only what is meant to block blocks."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import openresponses_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.responses_client_event_param import ResponseCreate

import state.envelope
from state.digest import Keyed
from state.envelope import POLICY, Envelope, EnvelopeReader, Policy
from wire.exact import Inexact, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

# Every property of a request body and of a WebSocket frame, as the API's description has them.
CREATE_RESPONSE = [
    "background",
    "background_options",
    "client_metadata",
    "context_management",
    "conversation",
    "generate",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "moderation",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_id",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "type",
    "user",
    "access_programs",
]
BLOCKING = [name for name, policy in POLICY.items() if policy is Policy.CONTEXT]
FREE = [name for name, policy in POLICY.items() if policy is Policy.FREE]
TRANSPORT = [name for name, policy in POLICY.items() if policy is Policy.TRANSPORT]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.just("x" * 70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def read(reader: EnvelopeReader | None = None, /, **members: bytes) -> Envelope:
    return (reader or EnvelopeReader(Keyed(b"s"))).read(members)


def shuffled(value: Any) -> Any:
    """The same value with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(member) for key, member in reversed(value.items())}
    return [shuffled(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CREATE_RESPONSE)
def test_every_field_of_the_api_has_a_policy(name: str) -> None:
    assert name in POLICY


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(ResponseCreateParamsBase.__annotations__, id="openai, HTTP"),
        pytest.param(ResponseCreate.__annotations__, id="openai, WebSocket"),
        pytest.param(openresponses_types.CreateResponseBody.model_fields, id="Open Responses, HTTP"),
        pytest.param(openresponses_types.WebSocketResponseCreateEvent.model_fields, id="Open Responses, WebSocket"),
    ],
)
def test_every_field_that_the_published_types_know_has_a_policy(names: Iterable[str]) -> None:
    assert set(names) - POLICY.keys() == set()


@pytest.mark.parametrize(
    "name",
    [
        *("metadata", "client_metadata", "stream_options", "user", "safety_identifier", "prompt_cache_key", "include"),
        *("max_output_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty"),
    ],
)
def test_what_steers_only_this_turn_is_free(name: str) -> None:
    assert POLICY[name] is Policy.FREE


@pytest.mark.parametrize(
    "name", ["instructions", "tools", "tool_choice", "text", "reasoning", "model", "store", "truncation"]
)
def test_what_the_model_sees_or_the_upstream_keeps_is_context(name: str) -> None:
    assert POLICY[name] is Policy.CONTEXT


@pytest.mark.parametrize("name", [*FREE, *TRANSPORT])
def test_a_field_that_is_free_or_of_the_transport_never_blocks(name: str) -> None:
    assert read().changed(read(**{name: b"1"})) is None
    assert read(**{name: b"1"}).changed(read(**{name: b"2"})) is None


@pytest.mark.parametrize("name", [*BLOCKING, "a_field_of_tomorrow"])
def test_a_context_field_and_an_unknown_one_block_when_changed_added_or_removed(name: str) -> None:
    one, two = read(**{name: b"1"}), read(**{name: b"2"})
    assert one.changed(two) == name
    assert one.changed(read()) == name
    assert read().changed(one) == name
    assert one.changed(read(**{name: b" 1"})) is None


@pytest.mark.parametrize("name", BLOCKING)
def test_a_field_that_the_upstream_honours_does_not_block(name: str) -> None:
    one, two = read(**{name: b"1"}), read(**{name: b"2"})
    assert one.changed(two, frozenset({name})) is None
    assert one.changed(two, frozenset({"another"})) == name


def test_behind_an_honoured_change_any_other_one_is_still_seen() -> None:
    one = read(instructions=b'"a"', tools=b"[]", model=b'"m"')
    two = read(instructions=b'"b"', tools=b"[1]", model=b'"m"')
    assert one.changed(two, frozenset({"instructions"})) == "tools"
    assert one.changed(two) == "instructions"


@pytest.mark.parametrize("name", [*BLOCKING, "a_field_of_tomorrow"])
def test_null_is_absent(name: str) -> None:
    assert read(**{name: b"null"}) == read()
    assert read(**{name: b"[null]"}) != read()


@given(VALUES)
def test_key_order_and_white_space_never_matter(value: Any) -> None:
    one = read(tools=json.dumps(value).encode())
    two = read(tools=json.dumps(shuffled(value), indent=2, ensure_ascii=False).encode())
    assert one.changed(two) is None


@given(VALUES, VALUES)
def test_two_values_have_the_same_envelope_exactly_when_they_are_equal(one: Any, two: Any) -> None:
    equal = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    reader = EnvelopeReader(Keyed(b"s"))
    assert (read(reader, tools=json.dumps(one).encode()) == read(reader, tools=json.dumps(two).encode())) is equal


@pytest.mark.parametrize(("one", "two"), [(b"1", b"1.0"), (b"1", b"true"), (b'"1"', b"1"), (b"[]", b"{}")])
def test_values_of_other_types_or_other_number_text_differ(one: bytes, two: bytes) -> None:
    assert read(tool_choice=one) != read(tool_choice=two)


def test_the_order_of_members_never_matters() -> None:
    assert read(model=b'"m"', tools=b"[]") == read(tools=b"[]", model=b'"m"')


@pytest.mark.parametrize("raw", [b'{"a":1,"a":1}', b'"\\ud800"', b"NaN", b'{"a":1,"a":1,"long":"%s"}' % (b"x" * 80)])
def test_a_member_that_readers_understand_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(Inexact):
        read(text=raw)


def test_a_member_that_cannot_block_is_not_even_read() -> None:
    assert read(metadata=b'{"a":1,"a":2}') == read()


def test_no_content_is_kept() -> None:
    reader = EnvelopeReader(Keyed(b"s"))
    secret = "sk-hunter2 " * 20
    envelope = read(reader, instructions=json.dumps(secret).encode())
    assert all(len(digest) == 16 for _, digest in envelope.fields)
    assert "hunter2" not in repr((envelope, reader._known, reader._interned))


def test_a_large_member_is_parsed_once_and_an_equal_envelope_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = Counter[bytes]()

    def counting(raw: bytes) -> object:
        parsed[raw] += 1
        return parse(raw)

    monkeypatch.setattr(state.envelope, "parse", counting)
    reader, tools = EnvelopeReader(Keyed(b"s")), json.dumps(["x" * 1000]).encode()
    assert read(reader, tools=tools) is read(reader, tools=tools)
    assert parsed == {tools: 1}


def test_what_is_remembered_of_members_and_envelopes_is_bounded() -> None:
    reader = EnvelopeReader(Keyed(b"s"))
    for number in range(2000):
        read(reader, tools=json.dumps([f"{number}" * 100]).encode())
    assert len(reader._known) <= 512
    assert len(reader._interned) <= 512


def test_another_secret_makes_other_digests() -> None:
    members = {"model": b'"m"'}
    assert EnvelopeReader(Keyed(b"s")).read(members) != EnvelopeReader(Keyed(b"t")).read(members)
