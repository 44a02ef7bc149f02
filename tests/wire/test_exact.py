"""`wire.exact`: JSON without loss, in one written form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.exact import Inexact, Number, dump, parse

NUMBERS = ["0", "-0", "1", "-1", "10", "1.0", "1.00", "1e0", "1E0", "1e+0", "0.1", "-0.0", "1e400", "9" * 18, "9" * 19]
SCALARS = [*NUMBERS, "9" * 5000, "true", "false", "null", '""', '"1"', '"a"', '"é"', '"\\u00e9"', '"\\/"', '"/"']
KEYS = ['"a"', '"\\u0061"', '"b"', '"1"', '""']


def _objects(members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(st.sampled_from(KEYS), members), max_size=3, unique_by=lambda pair: json.loads(pair[0]))
    return st.tuples(pairs, st.sampled_from(["", " ", "\n\t"])).map(
        lambda made: "{" + ("," + made[1]).join(f"{key}{made[1]}:{value}" for key, value in made[0]) + "}"
    )


TEXTS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=3).map(lambda many: "[" + " , ".join(many) + "]") | _objects(inner),
    max_leaves=6,
)


def same(one: object, two: object) -> bool:
    """Equality that keeps True and 1 apart."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and one == two


@given(TEXTS, TEXTS)
def test_dumps_are_equal_exactly_when_values_are(one: str, two: str) -> None:
    first, second = parse(one.encode()), parse(two.encode())
    assert (dump(first) == dump(second)) == same(first, second)


@given(TEXTS)
def test_a_value_survives_being_written_and_read(text: str) -> None:
    value = parse(text.encode())
    assert same(parse(dump(value)), value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_other_writers_make_is_read_as_they_meant_it(value: object) -> None:
    try:
        escaped, plain = json.dumps(value).encode(), json.dumps(value, ensure_ascii=False, indent=1).encode()
    except UnicodeEncodeError:
        return
    assert same(parse(escaped), value)
    assert dump(parse(plain)) == dump(parse(escaped))


def test_each_text_of_a_number_is_a_number_of_its_own() -> None:
    assert len({dump(parse(text.encode())) for text in NUMBERS}) == len(NUMBERS)


def test_a_number_keeps_its_text() -> None:
    assert (
        dump(parse(b"[1.50, 1E2, -0, 123456789012345678901234567890]"))
        == b"[1.50,1E2,-0,123456789012345678901234567890]"
    )


def test_a_small_integer_is_an_int_and_other_numbers_are_not() -> None:
    assert parse(b"[7, 7.0]") == [7, Number("7.0")]
    assert Number("7") != 7
    assert Number("7.0") != Number("7.00")
    assert len({Number("7.0"), Number("7.0"), Number("7.00")}) == 2
    assert repr(Number("7.0")) == "Number('7.0')"


def test_keys_are_sorted_and_white_space_is_gone() -> None:
    assert dump(parse(b' { "b" : 1 ,\r\n "a" : [ true , null ] } ')) == b'{"a":[true,null],"b":1}'


def test_a_surrogate_pair_is_a_character() -> None:
    assert dump(parse(rb'"\ud83d\ude00 \\ud800"')) == '"😀 \\\\ud800"'.encode()


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"a":1,"a":1}', id="a repeated key"),
        pytest.param(b'[{"x":{"a":1,"b":2,"\\u0061":1}}]', id="a repeated key under an escape"),
        pytest.param(b"[NaN]", id="NaN"),
        pytest.param(b"-Infinity", id="Infinity"),
        pytest.param(rb'"\ud800"', id="a high surrogate alone"),
        pytest.param(rb'{"\uDC00":1}', id="a low surrogate alone in a key"),
        pytest.param(b'"\xed\xa0\x80"', id="a surrogate in UTF-8"),
        pytest.param(b'"\xff"', id="bad UTF-8"),
        pytest.param(b"\xef\xbb\xbf{}", id="a byte order mark"),
        pytest.param(b'"a\nb"', id="a raw newline in a string"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"{} {}", id="two values"),
        pytest.param(b"[1,]", id="a trailing comma"),
        pytest.param(b"01", id="a leading zero"),
        pytest.param(b"\xc2\xa01", id="other white space"),
        pytest.param(b"[" * 255 + b"]" * 255, id="nesting that cannot be written again"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="nesting that cannot be read"),
    ],
)
def test_what_readers_understand_differently_is_inexact(raw: bytes) -> None:
    with pytest.raises(Inexact):
        parse(raw)


def test_nesting_that_can_be_written_is_read() -> None:
    raw = b"[" * 254 + b"]" * 254
    assert dump(parse(raw)) == raw


def test_an_error_carries_no_content() -> None:
    with pytest.raises(Inexact) as caught:
        parse(b'{"secret-word": 1, "secret-word": nul}')
    assert "secret-word" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_what_is_no_json_is_not_written() -> None:
    for value in (object(), {1: 2}, "\ud800"):
        with pytest.raises(Inexact):
            dump(value)
