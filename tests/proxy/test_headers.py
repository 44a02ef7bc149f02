"""Which headers go where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from proxy.headers import (
    CREDENTIALS,
    HOP_BY_HOP,
    IDENTITY,
    for_handshake,
    of_error,
    phrase,
    retry_after,
    tenant_parts,
    through,
)
from state.digest import Keyed

URL = "https://api.openai.com/v1"


# The tenant


@pytest.mark.parametrize("name", IDENTITY)
def test_every_identifying_header_tells_tenants_apart(name: str) -> None:
    seen = [tenant_parts(URL, headers, ()) for headers in ({}, {name: ""}, {name: "a"}, {name: "b"}, {name: "-"})]
    assert len({tuple(parts) for parts in seen}) == len(seen)


def test_other_headers_do_not_make_a_tenant_unless_they_are_forwarded() -> None:
    base = tenant_parts(URL, {}, ())
    assert tenant_parts(URL, {"x-team": "a", "user-agent": "b"}, ()) == base
    assert tenant_parts(URL, {"x-team": "a"}, ("x-team",)) != tenant_parts(URL, {"x-team": "b"}, ("x-team",))


def test_another_upstream_is_another_tenant() -> None:
    assert tenant_parts(URL, {}, ()) != tenant_parts(URL + "/x", {}, ())


def test_header_names_are_read_in_any_case_and_forwarded_ones_in_any_order() -> None:
    headers = CIMultiDict({"AUTHORIZATION": "Bearer a", "X-B": "1", "x-a": "2"})
    lower = {name.lower(): value for name, value in headers.items()}
    assert tenant_parts(URL, headers, ("x-b", "x-a")) == tenant_parts(URL, lower, ("x-a", "x-b"))


def test_bytes_that_are_no_text_are_a_value_like_any_other() -> None:
    values = ["Bearer \udcff", "Bearer \udcfe", "Bearer ÿ"]
    assert len({tuple(tenant_parts(URL, {"authorization": value}, ())) for value in values}) == 3


def test_lines_of_the_same_header_all_count() -> None:
    """Each beta may have a line of its own."""
    lines = CIMultiDict([("OpenAI-Beta", "one"), ("OpenAI-Beta", "two")])
    seen = [tenant_parts(URL, CIMultiDict({"openai-beta": value}), ()) for value in ("one", "two")]
    assert tenant_parts(URL, lines, ()) not in seen
    assert for_handshake(lines, ()) == {"openai-beta": "one, two"}


_NAMES = st.sampled_from([*IDENTITY, "x-a", "x-b"])
_HEADERS = st.dictionaries(_NAMES, st.text("ab-+", max_size=3), max_size=3)
_FORWARDED = st.sets(st.sampled_from(["x-a", "x-b"])).map(lambda names: tuple(sorted(names)))
_SIDE = st.tuples(st.sampled_from([URL, URL + "-"]), _HEADERS, _FORWARDED)


def _identity(upstream: str, headers: dict[str, str], forwarded: tuple[str, ...]) -> tuple[object, ...]:
    return upstream, forwarded, *((name, headers.get(name)) for name in (*IDENTITY, *forwarded))


@given(_SIDE, _SIDE)
def test_two_callers_are_one_tenant_exactly_when_all_that_identifies_them_is_equal(
    one: tuple[str, dict[str, str], tuple[str, ...]], two: tuple[str, dict[str, str], tuple[str, ...]]
) -> None:
    keyed = Keyed(b"secret")
    same = keyed.tenant(tenant_parts(*one)) == keyed.tenant(tenant_parts(*two))
    assert same == (_identity(*one) == _identity(*two))


# The handshake


def test_a_handshake_carries_who_asks_and_nothing_of_the_turn() -> None:
    who = dict.fromkeys([*IDENTITY, "user-agent", "x-team"], "v")
    turn = dict.fromkeys(["content-type", "traceparent", "idempotency-key", "x-request-id", "cookie", "accept"], "v")
    assert for_handshake(CIMultiDict(who | turn), ("x-team",)) == who
    assert for_handshake(CIMultiDict(turn), ("x-team",)) == {}
    assert set(CREDENTIALS) <= set(IDENTITY)


# What passes through


def test_end_to_end_headers_pass_in_order_and_case() -> None:
    headers = [("X-B", "1"), ("accept", "a"), ("X-B", "2"), ("Set-Cookie", "c=1"), ("set-cookie", "d=2")]
    assert through(headers) == headers


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP | {"host", "content-length"}))
def test_headers_of_one_connection_stay_there(name: str) -> None:
    assert through([(name, "x"), (name.title(), "x"), ("a", "b")]) == [("a", "b")]


def test_headers_that_the_connection_header_names_stay_as_well() -> None:
    headers = [("Connection", "close , X-One"), ("X-One", "1"), ("x-two", "2"), ("x-three", "3")]
    assert through(headers) == [("x-two", "2"), ("x-three", "3")]


def test_a_second_connection_header_counts_too() -> None:
    headers = [("Connection", "close"), ("connection", "x-two"), ("x-two", "2"), ("x-three", "3")]
    assert through(headers) == [("x-three", "3")]


@pytest.mark.parametrize("code", [*range(9), *range(10, 32), 127])
def test_no_control_character_is_sent_on(code: int) -> None:
    assert through([("x-a", f"1{chr(code)}2")]) == [("x-a", "1 2")]
    assert phrase(f"O{chr(code)}K") is None


def test_tabs_and_what_is_not_ascii_are_sent_on() -> None:
    assert through([("x-a", "1\t\xe9")]) == [("x-a", "1\t\xe9")]
    assert (phrase("Not\tFound"), phrase(None)) == ("Not\tFound", None)


def test_our_own_headers_are_not_taken_from_outside() -> None:
    assert through([("X-Deltawire-Transport", "delta"), ("x-deltawire-anything", ""), ("x-delta", "y")]) == [
        ("x-delta", "y")
    ]


# What an error frame may add to an HTTP answer


def test_an_error_brings_its_headers_along() -> None:
    headers = {"retry-after": "3", "x-ratelimit-remaining-tokens": "0", "x_codex_limit": "primary"}
    assert of_error(headers) == headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retry-after", "1\r\nset-cookie: a=b"),
        ("retry-after", "1\n"),
        ("retry-after", "1\r"),
        ("retry-after", "1\x00"),
        ("retry-after", "1\x7f"),
        ("retry-after", "\u0161\u010d"),
        ("retry-after", "\udcff"),
        ("retry-after\r\nx", "1"),
        ("retry after", "1"),
        ("retry-after:", "1"),
        ("r\u00e9try", "1"),
        ("", "1"),
        ("x-deltawire-transport", "delta"),
        ("content-length", "0"),
        ("content-type", "text/html"),
        ("content-encoding", "gzip"),
        ("set-cookie", "a=b"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
    ],
)
def test_an_error_cannot_break_or_bend_the_answer(name: str, value: str) -> None:
    assert of_error({name: value, "ok": "1"}) == {"ok": "1"}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_whatever_an_error_brings_fits_on_header_lines(headers: dict[str, str]) -> None:
    for name, value in of_error(headers).items():
        line = f"{name}: {value}".encode("ascii")
        assert not set(line) & set(b"\r\n\x00")


# What an answer asks for

_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": " 5 "}, 5),
        ({"Retry-After": "120"}, 120),
        ({"retry-after": "9" * 5000}, 999_999_999),
        ({"retry-after": "Wed, 21 Oct 2015 07:29:30 GMT", "date": _DATE}, 90),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:00 GMT", "date": _DATE}, 0),
        ({"retry-after": "Wed, 21 Oct 2015 07:29:30 GMT"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "٣"}, 0),
        ({"retry-after": "Wed, 21 Oct 99999 07:29:30 GMT", "date": _DATE}, 0),
        ({"retry-after": "soon", "date": "now"}, 0),
    ],
)
def test_how_long_an_answer_asks_to_wait_is_told_in_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float
) -> None:
    assert retry_after(CIMultiDict(headers)) == seconds


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_some_time_to_wait(value: str, date: str) -> None:
    assert retry_after({"retry-after": value, "date": date}) >= 0
