from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from upstream.schema import Impossible, value_for

_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "string"},
    {"type": "string", "minLength": 40},
    {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^[a-z]+$"},
    {"type": "string", "pattern": r"^\d+$"},
    {"type": "string", "format": "date-time"},
    {"enum": ["x", "y"]},
    {"const": {"a": 1}},
    {"type": "integer"},
    {"type": "integer", "minimum": 7},
    {"type": "integer", "maximum": -3},
    {"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 12},
    {"type": "integer", "multipleOf": 5, "minimum": 12},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": 0.25, "maximum": 0.75},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["null", "string"]},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "string"}, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"],
     "additionalProperties": False},
    {"properties": {"a": {"type": "object", "properties": {"c": {"enum": [3]}}, "required": ["c"]}}, "required": ["a"]},
    {"anyOf": [{"type": "null"}, {"type": "integer"}]},
    {"oneOf": [{"type": "string", "pattern": "^no candidate fits [0-9]{9}$"}, {"type": "boolean"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
               {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]},
    {"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"]},
    {"items": {"type": "string"}, "minItems": 1},
]  # fmt: skip


@pytest.mark.parametrize("schema", _SCHEMAS)
def test_a_value_is_valid_by_a_validator_of_others(schema: dict[str, Any]) -> None:
    jsonschema.validate(value_for(schema), schema)


@pytest.mark.parametrize("schema", _SCHEMAS)
def test_the_value_is_the_same_each_time(schema: dict[str, Any]) -> None:
    assert value_for(schema) == value_for(schema)


def test_optional_members_are_left_out() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}

    assert value_for(schema) == {"b": "deltawire"}


@pytest.mark.parametrize(
    "schema",
    [
        False,
        3,
        {"type": "string", "pattern": "^no candidate fits [0-9]{9}$"},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#"},
        {"type": "array", "uniqueItems": True, "minItems": 2},
        {"anyOf": [False]},
    ],
)
def test_what_cannot_be_made_is_said_to_be_impossible(schema: object) -> None:
    with pytest.raises(Impossible):
        value_for(schema)
