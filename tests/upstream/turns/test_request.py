from typing import Any

import pytest

from tests.upstream.helpers import members
from upstream.turns.request import body_members, read_changes, read_request
from wire.errors import ApiError


def _refused(**values: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read_request(members(**values))
    return caught.value


def test_the_members_that_matter_are_read() -> None:
    request = read_request(
        members(
            model="m", input="hi", tools=[], instructions="be", store=False, include=["reasoning.encrypted_content"]
        )
    )

    assert (request.model, request.input, request.tools, request.instructions) == ("m", b'"hi"', b"[]", "be")
    assert request.store is False
    assert request.sealed_reasoning is True


def test_an_absent_or_null_store_means_that_the_response_is_kept() -> None:
    assert read_request(members(model="m")).store is True
    assert read_request(members(model="m", store=None)).store is True


def test_null_and_absent_are_the_same_for_the_large_members() -> None:
    request = read_request(members(model="m", input=None, tools=None, instructions=None))

    assert (request.input, request.tools, request.instructions) == (b"", b"", None)


def test_unknown_members_are_tolerated_whatever_they_hold() -> None:
    request = read_request(members(model="m", client_metadata={"a": [1]}, never_heard_of={"x": 1.0000000}))

    assert request.model == "m"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", 3),
        ("stream", "true"),
        ("store", "no"),
        ("tools", {}),
        ("instructions", 3),
        ("max_output_tokens", "12"),
        ("max_output_tokens", 0),
        ("previous_response_id", 7),
        ("metadata", []),
        ("tool_choice", 3),
        ("text", "x"),
        ("temperature", "hot"),
    ],
)
def test_a_member_of_the_wrong_type_is_refused_by_name(name: str, value: Any) -> None:
    error = _refused(**({"model": "m"} | {name: value}))

    assert (error.status, error.param) == (400, name)


@pytest.mark.parametrize("name", ["conversation", "prompt"])
def test_what_would_change_the_answer_and_is_not_offered_is_refused(name: str) -> None:
    error = _refused(model="m", **{name: True})

    assert (error.status, error.param, error.code) == (400, name, "unsupported_parameter")


def test_those_members_may_be_null_or_false() -> None:
    assert read_request(members(model="m", conversation=None, prompt=None, background=False)).model == "m"


def test_a_missing_model_is_named() -> None:
    assert (_refused(input="x").param, _refused(model="", input="x").code) == ("model", "missing_required_parameter")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"a":1,"a":2}', b"null", b"{}x"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        body_members(body)

    assert caught.value.status == 400


def test_content_does_not_show_in_the_text_form_of_a_request() -> None:
    text = repr(read_request(members(model="m", input="secret", instructions="secret", user="secret")))

    assert "secret" not in text


def test_what_is_made_in_the_background_is_stored() -> None:
    assert _refused(model="m", background=True, store=False).param == "store"
    assert read_request(members(model="m", background=True)).fields.background is True


def test_changes_take_the_place_of_what_was_and_null_takes_it_away() -> None:
    request = read_request(members(model="m", input="hi", user="u", tools=[], instructions="be", top_p=1))
    changed = read_changes(request, members(input="more", user=None, instructions=None, temperature=1, other={}))

    assert (changed.input, changed.tools, changed.instructions) == (b'"more"', b"[]", None)
    assert (changed.model, changed.fields.user, changed.fields.temperature, changed.fields.top_p) == ("m", None, 1, 1)
    assert request.fields.user == "u"
    assert read_changes(request, members(model="n", tools=None)).tools == b""


@pytest.mark.parametrize("change", [{"temperature": 3}, {"model": None}, {"prompt": {"id": "p"}}, {"tools": "x"}])
def test_changes_are_checked_as_a_request_is(change: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        read_changes(read_request(members(model="m")), members(**change))
    assert caught.value.param == next(iter(change))
