"""Readers: what each makes of a text, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import readers
from proxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Callable

KIB, MIB = 1024, 1024 * 1024

GOOD: list[tuple[Callable[[str], Any], str, Any]] = [
    (readers.address, "127.0.0.1:0", Address("127.0.0.1", 0)),
    (readers.address, "localhost:65535", Address("localhost", 65535)),
    (readers.address, "[::1]:8787", Address("::1", 8787)),
    (readers.address, "[::]:80", Address("::", 80)),
    (readers.size, "1", 1),
    (readers.size, "10B", 10),
    (readers.size, " 2 kib ", 2 * KIB),
    (readers.size, "128MiB", 128 * MIB),
    (readers.size, "1GiB", 1024 * MIB),
    (readers.duration, "55m", 3300.0),
    (readers.duration, "1.5s", 1.5),
    (readers.duration, "2", 2.0),
    (readers.duration, "250 ms", 0.25),
    (readers.duration, "24h", 86400.0),
    (readers.count, "1", 1),
    (readers.count, "256", 256),
    (readers.number, "0", 0),
    (readers.pace, "0", 0.0),
    (readers.pace, "12.5", 12.5),
    (readers.base_url, "https://api.openai.com/v1", "https://api.openai.com/v1"),
    (readers.base_url, "http://127.0.0.1:80/v1/", "http://127.0.0.1:80/v1"),
    (readers.base_url, "HTTP://[::1]:80", "http://[::1]:80"),
    (readers.base_url, "https://host?", "https://host"),
    (readers.base_url, "http://my_app.ns.svc.:1", "http://my_app.ns.svc.:1"),
    (readers.base_url, "https://xn--bcher-kva.example/v1", "https://xn--bcher-kva.example/v1"),
    (readers.state, "memory", "memory"),
    (readers.state, "redis+sentinel://u:p@a:1,b:2/main/3", "redis+sentinel://u:p@a:1,b:2/main/3"),
    (readers.secret, "", None),
    (readers.secret, "0123456789abcdef", b"0123456789abcdef"),
    (readers.names, "", ()),
    (readers.names, " X-Team ,x-b,,", ("x-team", "x-b")),
    (readers.some_of("a", "b"), "b, a,", ("b", "a")),
    (readers.names, "x\n", ("x",)),
    (readers.some_of("a"), "none", ()),
    (readers.some_of("a"), "", ()),
    (readers.rates, "all=0.1", {"all": 0.1}),
    (readers.rates, " a=1 ,b=0.05,,", {"a": 1.0, "b": 0.05}),
    (readers.rates, "", {}),
]


@pytest.mark.parametrize(("reader", "text", "value"), GOOD)
def test_a_value_is_read(reader: Callable[[str], Any], text: str, value: Any) -> None:
    found = reader(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        *((readers.address, text) for text in ("", ":80", "host", "host:", "host:x", "host:65536", "host:-1")),
        *((readers.address, text) for text in ("::1:80", "::1", "[::1:80", "[::1]", "[]:80", "host:1:2", "h:\u0663")),
        *((readers.address, text) for text in ("host:80 ", "host:" + "9" * 5000)),
        *((readers.size, text) for text in ("", "0", "0MiB", "-1", "1.5MiB", "1MB", "1TiB", "MiB", "9" * 5000)),
        *((readers.size, text) for text in ("99999999999GiB", "1" * 15 + "GiB")),
        *(
            (readers.duration, text)
            for text in ("", "0", "0.0s", "-1s", "1M", "1d", "s", "inf", "nan", "9" * 400, "1e3")
        ),
        *((readers.count, text) for text in ("", "0", "-1", "1.0", "x", "\u0663", "1" * 5000)),
        *((readers.number, text) for text in ("", "-1", "x", "1" * 5000)),
        *((readers.pace, text) for text in ("", "-1", "nan", "inf", "x")),
        *((readers.base_url, text) for text in ("", "host", "ftp://host", "https://", "https:///v1", "ws://host")),
        *((readers.base_url, text) for text in ("https://host/v1?a=b", "https://host/v1#a", "https://u@host/v1")),
        *(
            (readers.base_url, text)
            for text in ("https://ho\nst/v1", "https://ho st/v1", "https://h:99999", "http://[a")
        ),
        *(
            (readers.base_url, f"http://{host}/v1")
            for host in ("a..b", "...", "a" * 64, "h\u00e9", "x\\y", "xn--", "h/\u00e9")
        ),
        *((readers.state, text) for text in ("", "Memory", "http://host", "redis://", "redis://host?db=1")),
        *((readers.secret, text) for text in ("short", "a" * 15, "\udcff" * 20)),
        *((readers.some_of("a", "b"), text) for text in ("c", "a,c", "a, none", "A", "a b")),
        *((readers.names, text) for text in ("a b", "x:y", "x\ny", "\u00e9")),
        *((readers.names, text) for text in ("Host", "connection", "a,Upgrade", "content-length", "expect")),
        *(
            (readers.rates, text)
            for text in ("a", "a=", "a=x", "a=1.1", "a=-1", "a=1=1", "a=nan", "a=1e0", "a=." + "1" * 5000)
        ),
        *((readers.names, text) for text in ("Sec-WebSocket-Key", "x-deltawire-features")),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(reader: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        reader(text)
    assert len(str(raised.value)) < 120


@given(st.integers(0, 65535), st.sampled_from(["127.0.0.1", "::1", "fe80::1%eth0", "host.example"]))
def test_every_address_is_read_as_it_is_written(port: int, host: str) -> None:
    assert readers.address(str(Address(host, port))) == Address(host, port)


def test_a_limit_is_a_duration_or_none_at_all() -> None:
    assert [readers.limit(text) for text in ("0", "90s", "10m")] == [0.0, 90.0, 600.0]
    for text in ("", "0s", "-1", "off"):
        with pytest.raises(ValueError, match="a duration such as"):
            readers.limit(text)
