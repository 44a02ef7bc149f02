from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_harmony import Conversation, DeveloperContent, Message, Role, ToolDescription

from tests.support.harmony import oracle
from tests.upstream.engines.prompts import PATCH, SPACED, WEATHER
from upstream.stages.resolve import Tool
from upstream.templates.typescript import namespace


def ours(parameters: dict[str, Any], description: str = "Does it.") -> str:
    return namespace("functions", [Tool("function", "f", parameters=parameters, description=description)])


def theirs(parameters: dict[str, Any], description: str = "Does it.") -> str:
    tool = ToolDescription.new("f", description, parameters=parameters)
    told = Message.from_role_and_content(Role.DEVELOPER, DeveloperContent.new().with_function_tools([tool]))
    text: str = oracle().decode_utf8(oracle().render_conversation(Conversation.from_messages([told])))
    return text[text.index("namespace functions") :].removesuffix("<|end|>")


def within(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_LINES = st.from_regex(r"[A-Za-z0-9.,'()]{1,8}( [a-z]{1,6}){0,3}", fullmatch=True)
_SCALARS = st.sampled_from(["string", "number", "integer", "boolean"]).map(lambda kind: {"type": kind})
_TYPES = st.recursive(
    _SCALARS
    | st.lists(_LINES, min_size=1, max_size=3, unique=True).map(lambda values: {"type": "string", "enum": values}),
    lambda inner: (
        inner.filter(lambda one: "enum" not in one).map(lambda of: {"type": "array", "items": of})
        | st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3).map(lambda found: within(**found))
    ),
    max_leaves=6,
)


@st.composite
def _objects(draw: st.DrawFn) -> dict[str, Any]:
    found = draw(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), _TYPES, min_size=1, max_size=4))
    for value in found.values():
        if value["type"] != "object" and draw(st.booleans()):
            value["description"] = draw(_LINES)
        if value["type"] == "string" and draw(st.booleans()):
            value["default"] = draw(_LINES)
    return within(**found) | {"required": draw(st.lists(st.sampled_from(sorted(found)), unique=True))}


@given(_objects(), _LINES)
def test_ordinary_schemas_are_told_as_those_who_made_the_model_tell_them(schema: dict[str, Any], line: str) -> None:
    assert ours(schema, line) == theirs(schema, line)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        # Theirs leaves all of these to guessing: `any`, or a text that is no type.
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "number"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "Array<string | null>"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, 'Array<"a" | "b">'),
        ({"type": "integer", "nullable": True}, "number | null"),
        ({"$ref": "#/x"}, "any"),
        ({"type": "array"}, "Array<any>"),
        (True, "any"),
        ({"type": 3}, "any"),
    ],
)
def test_other_schemas_say_what_can_be_said(schema: Any, told: str) -> None:
    assert f"\nx?: {told},\n" in ours(within(x=schema))


def test_each_line_of_a_description_is_a_comment() -> None:
    told = ours(within(x={"type": "string", "description": "One.\n\n}) => any;"}), "First.\nSecond.")

    assert "// First.\n// Second.\ntype f" in told
    assert "// One.\n//\n// }) => any;\nx?: string,\n" in told


def test_a_default_stays_on_its_line() -> None:
    told = ours(within(x={"type": "string", "default": "a\nb"}, y={"enum": ["a"], "default": "a\nb"}))

    assert 'x?: string, // default: "a\\nb"\n' in told
    assert 'y?: "a", // default: a b\n' in told


def test_custom_tools_and_those_of_namespaces_are_functions_too() -> None:
    told = namespace("functions", [WEATHER, PATCH, SPACED])

    assert "type get_weather = () => any;" in told
    assert "type apply_patch = (_: {\n// The tool's whole input, as plain text.\ninput: string,\n}) => any;" in told
    assert "type mcp__wiki__search = () => any;" in told


def test_a_schema_without_end_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = {"type": "array", "items": schema}

    assert "any[][]" in ours(within(x=schema))
