import msgspec
import pytest

from upstream.problems import invalid_type, missing, no_lanes, reworded, unsupported


class _Shape(msgspec.Struct):
    a: int | None = None
    b: list[str] | None = None
    c: dict[str, str] | None = None
    d: str | dict[str, int] | None = None


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (b'{"a":"x"}', "a", "Invalid type for 'a': expected an integer, but got a string instead."),
        (b'{"b":["x",3]}', "b[1]", "Invalid type for 'b[1]': expected a string, but got an integer instead."),
        (b'{"c":{"k":3}}', "c", "Invalid type for 'c': expected a string, but got an integer instead."),
        (b'{"d":3}', "d", "Invalid type for 'd': expected one of a string or an object, but got an integer instead."),
    ],
)
def test_a_decoders_complaint_is_told_in_the_apis_words(body: bytes, param: str, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=_Shape)
    error = reworded(caught.value)

    assert (error.status, error.param, error.code, error.message) == (400, param, "invalid_type", message)


def test_a_path_goes_on_from_its_prefix() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"a":[]}', type=_Shape)

    assert reworded(caught.value, "input[2]").param == "input[2].a"


def test_a_complaint_of_another_kind_says_no_more_than_that() -> None:
    error = reworded(msgspec.DecodeError("JSON is malformed: secret"), "input[0]")

    assert error.param == "input[0]"
    assert "secret" not in error.message


def test_the_kind_of_a_value_is_told_and_not_the_value() -> None:
    got = [
        invalid_type("x", "a string", raw).message.split("got ")[1] for raw in (b"1", b"[1]", b"{}", b"true", b"null")
    ]

    assert got == [
        "a number instead.",
        "an array instead.",
        "an object instead.",
        "a boolean instead.",
        "null instead.",
    ]


def test_a_server_without_lanes_says_so() -> None:
    assert (no_lanes().code, no_lanes().param) == ("invalid_stream_id", "stream_id")


def test_missing_and_unsupported_members_are_named() -> None:
    assert (missing("model").param, missing("model").code) == ("model", "missing_required_parameter")
    assert unsupported("conversation", "Why.").message == "Unsupported parameter: 'conversation'. Why."
