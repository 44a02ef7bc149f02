from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.turns.schema_check import check_format
from wire.errors import ApiError

_CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
_WORDS = st.sampled_from(["object", "string", "x", "", "#", "#/properties/a", "[", "integer"])
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), _WORDS, st.lists(_WORDS, max_size=3)
)
_KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "required", "enum", "minLength", "maximum", "multipleOf", "pattern", "anyOf", "items"),
        *("not", "additionalProperties", "$defs", "const", "minItems"),
    ]
)
_SCHEMAS = st.recursive(
    st.dictionaries(_KEYWORDS, _VALUES, max_size=3),
    lambda inner: st.dictionaries(
        _KEYWORDS, st.one_of(inner, st.lists(inner, max_size=2), st.dictionaries(_WORDS, inner, max_size=2)), max_size=3
    ),
    max_leaves=6,
)


def _refused(schema: Any, name: str = "n", *, strict: bool = False) -> ApiError:
    with pytest.raises(ApiError) as caught:
        check_format(name, schema, strict=strict)
    return caught.value


@given(_SCHEMAS)
def test_what_is_taken_is_a_schema_to_a_validator_too(schema: dict[str, Any]) -> None:
    try:
        check_format("n", schema, strict=False)
    except ApiError:
        return
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "text"}, "()"),
        ({"type": []}, "()"),
        ({"properties": []}, "()"),
        ({"properties": {"a": 3}}, "('properties', 'a')"),
        ({"properties": {"a": {"type": "x"}}}, "('properties', 'a')"),
        ({"items": {"enum": []}}, "('items',)"),
        ({"required": "a"}, "()"),
        ({"anyOf": []}, "()"),
        ({"anyOf": [True, "x"]}, "('anyOf', '1')"),
        ({"minLength": -1}, "()"),
        ({"maximum": "1"}, "()"),
        ({"multipleOf": 0}, "()"),
        ({"pattern": "["}, "()"),
        ({"$ref": "#/$defs/none"}, "()"),
        ({"$ref": "https://example.com/schema"}, "()"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(schema: dict[str, Any], place: str) -> None:
    error = _refused(schema)

    assert (error.status, error.param, error.code) == (400, "text.format.schema", "invalid_json_schema")
    assert f"response_format 'n': In context={place}, " in error.message


def test_a_schema_that_never_ends_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(500):
        schema = {"items": schema}

    assert "nested" in _refused(schema).message


def test_references_and_recursion_are_taken() -> None:
    check_format("n", {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}, strict=False)
    check_format("n", {"anyOf": [True, {"$ref": "#/anyOf/0"}], "$defs": {"a/b": {}}}, strict=False)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ä"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert _refused({}, name).param == "text.format.name"


def test_a_closed_object_is_taken_in_strict_mode() -> None:
    check_format("n", _CLOSED | {"properties": {"a": _CLOSED}}, strict=True)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "'type: \"object\"'"),
        ({"anyOf": [_CLOSED]}, "'anyOf' at the top level"),
        (_CLOSED | {"additionalProperties": True}, "'additionalProperties' is required"),
        (_CLOSED | {"required": []}, "every key in properties"),
        (_CLOSED | {"properties": {"a": {"type": "object"}}}, "In context=('properties', 'a')"),
        (_CLOSED | {"properties": {"a": {"not": {}}}}, "'not' is not permitted"),
    ],
)
def test_strict_mode_has_the_rules_of_the_api(schema: dict[str, Any], said: str) -> None:
    assert said in _refused(schema, strict=True).message
    if "anyOf" not in schema:
        check_format("n", schema, strict=False)
