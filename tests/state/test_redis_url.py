"""The URL of the shared state: every form that is documented, and that no message repeats the password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.redis_url import RedisAddress, parse_redis_url

GOOD = {
    "redis://localhost": RedisAddress("single", tls=False, hosts=(("localhost", 6379),)),
    "REDIS://cache:7000/3": RedisAddress("single", tls=False, hosts=(("cache", 7000),), database=3),
    "rediss://me:p%40ss%2Fword@cache/0": RedisAddress(
        "single", tls=True, hosts=(("cache", 6379),), username="me", password="p@ss/word"
    ),
    "redis://:only@[::1]:6380": RedisAddress("single", tls=False, hosts=(("::1", 6380),), password="only"),
    "redis://[::1]": RedisAddress("single", tls=False, hosts=(("::1", 6379),)),
    "redis+sentinel://a,b:1,c:2/main/5": RedisAddress(
        "sentinel", tls=False, hosts=(("a", 26379), ("b", 1), ("c", 2)), service="main", database=5
    ),
    "rediss+sentinel://a/main": RedisAddress("sentinel", tls=True, hosts=(("a", 26379),), service="main"),
    "redis+cluster://:pw@a:1,b": RedisAddress("cluster", tls=False, hosts=(("a", 1), ("b", 6379)), password="pw"),
    "rediss+cluster://a/0": RedisAddress("cluster", tls=True, hosts=(("a", 6379),)),
}
BAD = [
    "",
    "hunter2",
    "redis:hunter2@a",
    "http://:hunter2@a",
    "redis+hunter2://a",
    "redis://:hunter2@",
    "redis://:hunter2@a:hunter2",
    "redis://:hunter2@a:0",
    "redis://:hunter2@a:65536",
    "redis://:hunter2@a:\N{ARABIC-INDIC DIGIT ONE}",
    "redis://:hunter2@a/hunter2",
    "redis://:hunter2@a/0/hunter2",
    "redis://:hunter2@a,b",
    "redis://:hunter2@a?password=hunter2",
    "redis://:hunter2#@a",
    "redis://:hunter2\N{ACCOUNT OF}@a",
    "redis://:hunter2@[::1",
    "redis+sentinel://:hunter2@a",
    "redis+sentinel://:hunter2@a/main/hunter2",
    "redis+cluster://:hunter2@a/1",
]


@pytest.mark.parametrize("url", GOOD)
def test_every_documented_form_is_understood(url: str) -> None:
    assert parse_redis_url(url) == GOOD[url]


@pytest.mark.parametrize("url", GOOD)
def test_what_is_shown_of_an_address_is_a_url_of_the_same_place(url: str) -> None:
    address = parse_redis_url(url)
    shown = parse_redis_url(str(address))
    assert (shown.kind, shown.tls, shown.hosts, shown.service) == (
        address.kind,
        address.tls,
        address.hosts,
        address.service,
    )


@pytest.mark.parametrize("url", BAD)
def test_a_bad_url_is_refused_in_words_that_repeat_nothing_of_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"state URL|Cluster|hosts|sentinel") as caught:
        parse_redis_url(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_neither_repr_nor_text_shows_the_login() -> None:
    address = parse_redis_url("redis+sentinel://me:hunter2@a/main")
    assert "hunter2" not in f"{address} {address!r}"
    assert "me:" not in f"{address} {address!r}"


@given(st.text() | st.text().map("redis://".__add__) | st.text().map("redis+sentinel://".__add__))
def test_any_text_is_an_address_or_a_value_error(url: str) -> None:
    try:
        address = parse_redis_url(url)
    except ValueError:
        return
    assert all(host and 0 < port <= 65535 for host, port in address.hosts)
