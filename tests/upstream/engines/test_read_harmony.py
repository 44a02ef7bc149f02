from __future__ import annotations

import json
from typing import NamedTuple

import openai_harmony
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.harmony import oracle
from tests.upstream.engines.prompts import PATCH, SPACED, WEATHER, told
from tests.upstream.engines.vocabularies import BYTES, UNKNOWN
from upstream.engine import Delta, End, Part, Start
from upstream.engines.chains import packed
from upstream.engines.read_harmony import Harmony
from upstream.templates.functions import by_name
from upstream.tokens.vocabulary import load

_TOOLS = by_name((WEATHER, PATCH, SPACED))
_CALL = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Bern"}<|call|>'
_CALLED = ("function_call", "get_weather", '{"city": "Bern"}')
_HI = ("message", "", "Hi")


def _reader() -> Harmony:
    return Harmony(BYTES, _TOOLS)


def _played(*pieces: str | list[int], cut: bool = False) -> list[Part]:
    reader = _reader()
    fed = [part for piece in pieces for part in reader.feed(BYTES.ids(piece) if isinstance(piece, str) else piece)]
    return [*fed, *reader.end(cut=cut)]


def test_text_streams_token_by_token() -> None:
    reader = _reader()

    assert list(reader.feed(BYTES.ids("<|channel|>final<|message|>"))) == []
    assert list(reader.feed(BYTES.ids("Hi"))) == [Start("message"), Delta("H"), Delta("i")]
    assert list(reader.feed(BYTES.ids("<|return|>"))) == [
        End(packed(BYTES.ids("<|channel|>final<|message|>Hi<|return|>")))
    ]
    assert list(reader.end()) == []


def test_analysis_is_reasoning_and_the_rest_is_text_for_the_user() -> None:
    parts = _played(
        "<|channel|>analysis<|message|>hm<|end|>",
        "<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>",
        "<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    )

    assert told(parts) == [("reasoning", "", "hm"), ("message", "", "I look."), _HI]


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.get_weather <|constrain|>json",
        "<|channel|>commentary to=functions.get_weather<|constrain|>json",
        "<|channel|>commentary to=functions.get_weather code",
        " to=functions.get_weather<|channel|>commentary json",
        " to=functions.get_weather<|channel|>commentary <|constrain|>json",
        "<|channel|>analysis to=functions.get_weather code",
        "<|channel|>commentary to=get_weather <|constrain|>json",
    ],
)
def test_a_call_is_known_by_its_recipient_wherever_the_model_writes_it(header: str) -> None:
    assert told(_played(f'{header}<|message|>{{"city": "Bern"}}<|call|>')) == [_CALLED]


def test_calls_may_follow_each_other_and_thoughts_come_before() -> None:
    second = _CALL.replace("get_weather", "mcp__wiki__search").replace('{"city": "Bern"}', "{}")
    parts = _played(f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant{_CALL}<|start|>assistant{second}")

    assert told(parts) == [("reasoning", "", "hm"), _CALLED, ("function_call", "mcp__wiki__search", "{}")]


def test_a_function_that_is_not_on_offer_is_called_by_its_name() -> None:
    assert told(_played("<|channel|>commentary to=functions.other<|message|>{}<|call|>")) == [
        ("function_call", "other", "{}")
    ]


def test_a_custom_tool_gets_its_text() -> None:
    called = f"<|channel|>commentary to=functions.apply_patch<|message|>{json.dumps({'input': '*** ü'})}<|call|>"

    assert told(_played(called)) == [("custom_tool_call", "apply_patch", "*** ü")]


@pytest.mark.parametrize(("channel", "kind"), [("analysis", "reasoning"), ("commentary", "message")])
def test_a_message_for_a_tool_that_nobody_offers_is_no_call(channel: str, kind: str) -> None:
    assert told(_played(f"<|channel|>{channel} to=python code<|message|>1<|call|>")) == [(kind, "", "1")]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("Hi", [_HI]),
        ("Hi<|return|>", [_HI]),
        ("<|message|>Hi<|return|>", [_HI]),
        ("<|channel|>final Hi<|return|>", [_HI]),
        ("<|channel|>strange<|message|>Hi<|return|>", [_HI]),
        ("<|channel|>final <|constrain|>json<|message|>Hi<|return|>", [_HI]),
        ("<|channel|><|message|>Hi<|call|>", [_HI]),
        ("<|channel|>final<|message|>Hi<|start|>assistant<|channel|>final<|message|>Hi", [_HI, _HI]),
        ("<|end|><|end|><|channel|>final<|message|>Hi", [_HI]),
        (
            "<|channel|>analysis<|message|>hm<|end|>assistant<|channel|>final<|message|>Hi",
            [("reasoning", "", "hm"), _HI],
        ),
        ("<|channel|>final<|message|>a<|constrain|>b", [("message", "", "a<|constrain|>b")]),
        ("<|channel|>final<|message|><|return|>", []),
        ("<|channel|>final<|return|>", []),
        ("<|channel|>final<|message|>Hi<|end|><|start|>assistant", [_HI]),
        ("", []),
    ],
)
def test_what_has_no_form_is_text(written: str, found: list[tuple[str, str, str]]) -> None:
    assert told(_played(written)) == found


@pytest.mark.parametrize(
    "later",
    ["more", "<|start|>assistant<|channel|>final<|message|>more", "<|message|>more"],
)
def test_after_its_end_an_answer_has_nothing(later: str) -> None:
    assert told(_played(f"<|channel|>final<|message|>Hi<|return|>{later}")) == [_HI]


@pytest.mark.parametrize("other", ["user", "functions.get_weather to=assistant<|channel|>commentary"])
def test_a_model_that_writes_for_others_has_ended_its_own_answer(other: str) -> None:
    written = f"<|channel|>final<|message|>Hi<|end|><|start|>{other}<|message|>more<|end|>"

    assert told(_played(f"{written}<|start|>assistant<|channel|>final<|message|>more")) == [_HI]


def test_a_header_without_an_end_becomes_text_that_streams() -> None:
    reader = _reader()
    words = "all that is written here has no header, it is simply what the model had to say: "
    parts = list(reader.feed(BYTES.ids(words)))

    assert told([*parts, End()]) == [("message", "", words)]
    assert list(reader.feed(BYTES.ids("x"))) == [Delta("x")]


def test_blanks_without_end_are_nothing() -> None:
    assert _played(" " * 1000) == []


def test_an_answer_that_is_cut_leaves_its_item_open() -> None:
    assert _played("<|channel|>final<|message|>H", cut=True) == [Start("message"), Delta("H")]
    assert End() not in _played(_CALL.removesuffix("}<|call|>"), cut=True)


def test_characters_and_unknown_tokens_are_told_as_far_as_they_are_known() -> None:
    written = [*BYTES.ids("<|channel|>final<|message|>ü"), UNKNOWN, *BYTES.ids("€")[:2], *BYTES.ids("<|return|>")]

    assert told(_played(written)) == [("message", "", "ü�")]


def test_tokens_of_reasoning_are_counted() -> None:
    reader = _reader()
    list(reader.feed(BYTES.ids("<|channel|>analysis<|message|>h€<|end|><|start|>assistant" + _CALL)))

    assert reader.reasoning_tokens == 4


def test_each_item_has_the_tokens_that_it_was_written_with_the_first_behind_those_of_the_prompt() -> None:
    messages = ["<|channel|>analysis<|message|>hm<|end|>", f"<|start|>assistant{_CALL}"]
    reader = Harmony(BYTES, _TOOLS, packed([7]))
    parts = [*reader.feed(BYTES.ids("".join(messages))), *reader.end()]

    assert [part.tokens for part in parts if isinstance(part, End)] == [
        packed([7, *BYTES.ids(messages[0])]),
        packed(BYTES.ids(messages[1])),
    ]


@pytest.mark.parametrize(
    "written",
    [
        "Hi<|return|>",
        "<|message|>Hi<|return|>",
        "<|channel|>strange<|message|>Hi<|return|>",
        "<|channel|>commentary to=python<|message|>Hi<|call|>",
        "<|channel|>final<|message|>Hi",
        "<|channel|>final<|message|>Hi<|start|>",
    ],
)
def test_what_has_not_the_form_of_its_item_leaves_no_tokens(written: str) -> None:
    assert [part for part in _played(written) if isinstance(part, End)] == [End()]


_PIECES = ["a", " ", "to=functions.f", "ü", "json", "user", "assistant", "analysis", "final", "commentary", _CALL]
_CONTROL = [f"<|{name}|>" for name in ("start", "channel", "constrain", "message", "end", "return", "call")]
_WRITTEN = st.lists(st.sampled_from(_PIECES + _CONTROL), max_size=25).map(lambda pieces: BYTES.ids("".join(pieces)))


@given(st.one_of(_WRITTEN, st.lists(st.integers(0, 1010), max_size=100)), st.data())
def test_whatever_is_written_is_parts_in_order_and_the_same_however_it_is_cut(
    tokens: list[int], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=4)))
    pieces = [tokens[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True)]
    parts = _played(tokens)

    assert _played(*pieces) == parts
    told(parts)
    assert sum(isinstance(part, End) for part in parts) == sum(isinstance(part, Start) for part in parts)


class _Message(NamedTuple):
    """What a model writes for one message; `early` puts the recipient before the channel."""

    channel: str
    recipient: str
    constrained: str
    early: bool
    text: str

    def header(self) -> str:
        to = f" to={self.recipient}" if self.recipient else ""
        before, behind = (to, "") if self.early else ("", to)
        return f"{before}<|channel|>{self.channel}{behind}{self.constrained}<|message|>"


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(lambda text: "<|" not in text)
_MESSAGES = st.builds(
    _Message,
    channel=st.sampled_from(["analysis", "commentary", "final"]),
    recipient=st.sampled_from(["", "functions.get_weather", "functions.other"]),
    constrained=st.sampled_from(["", " json", " <|constrain|>json", "<|constrain|>json"]),
    early=st.booleans(),
    text=_TEXTS,
).filter(lambda one: bool(one.recipient) or not one.constrained)


@given(st.lists(_MESSAGES, max_size=4), st.sampled_from(["<|return|>", "<|call|>", "<|end|>"]))
def test_the_parser_of_those_who_made_the_model_reads_the_same(messages: list[_Message], last: str) -> None:
    encoding = oracle()
    tokens: list[int] = []
    for number, one in enumerate(messages):
        begun = "<|end|><|start|>assistant" if number else ""
        tokens += encoding.encode(begun + one.header(), allowed_special="all")
        tokens += encoding.encode(one.text, allowed_special=set(), disallowed_special=())
    tokens += encoding.encode(last, allowed_special="all") if messages else []
    parser = openai_harmony.StreamableParser(encoding, role=openai_harmony.Role.ASSISTANT)
    for token in tokens:
        parser.process(token)
    reader = Harmony(load("o200k_harmony"), _TOOLS)
    parts = [*reader.feed(tokens), *reader.end()]

    assert told(parts) == [item for message in parser.messages for item in _expected(message)]


def _expected(message: openai_harmony.Message) -> list[tuple[str, str, str]]:
    text = "".join(content.text for content in message.content)
    if message.recipient is not None and message.recipient.startswith("functions."):
        empty = "" if text.strip() else "{}"
        return [("function_call", message.recipient.removeprefix("functions."), text + empty)]
    kind = "reasoning" if message.channel == "analysis" else "message"
    return [(kind, "", text)] if text else []
