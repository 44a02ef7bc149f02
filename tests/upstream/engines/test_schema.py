from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.engines.schema import Impossible, value_for

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
        {"not": {"type": "object"}},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 10}}},
        {"type": "array", "minItems": 10**12},
        {"type": "string", "minLength": 10**12},
        {"type": "string", "pattern": r"^([\w-]+)+!$"},
        {"type": "string", "pattern": r"^[\w-]*[\w-]*[\w-]*[\w-]*[\w-]*[\w-]*[\w-]*[\w-]*[\w-]*!$"},
        {"type": "string", "pattern": "[" * 10**6},
        {"type": "string", "pattern": "(?x)#[\n" + r"^([\w-]+)+!$#]"},
        {"type": "string", "pattern": r"^(?:[\w-]|\w)" + r"(?:[\w-]|\w)" * 35 + "!$"},
    ],
)
def test_what_cannot_be_made_is_said_to_be_impossible(schema: object) -> None:
    with pytest.raises(Impossible):
        value_for(schema)


_LEAVES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": st.integers(0, 4), "maxLength": st.integers(4, 9)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("integer")}, optional={"minimum": st.integers(-9, 9), "multipleOf": st.integers(1, 5)}
    ),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", 1, None, True]), min_size=1, max_size=3)}),
    st.sampled_from(
        [{"type": ["null", "boolean"]}, {"type": "number", "exclusiveMinimum": 0}, {"type": "string", "format": "date"}]
    ),
)


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.sampled_from("abc"), unique=True)
    closed = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner), "required": names},
        optional={"additionalProperties": st.one_of(st.booleans(), inner), "minProperties": st.integers(0, 2)},
    )
    lists = st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 2)})
    return st.one_of(closed, lists, st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}))


@given(st.recursive(_LEAVES, _objects, max_leaves=5))
def test_whatever_is_made_is_valid(schema: dict[str, Any]) -> None:
    try:
        made = value_for(schema)
    except Impossible:
        return
    jsonschema.validate(made, schema)
