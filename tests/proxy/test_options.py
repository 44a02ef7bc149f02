"""Options: every one has a name, an environment variable, a default that it reads itself, and a help line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import options
from proxy.options import CHAOS, LOG_LEVEL, PROXY, UP, UPSTREAM, BadSettingError, Option, of_server, parser, values
from proxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = (*PROXY, *UPSTREAM, *UP, *CHAOS, LOG_LEVEL)
TABLES = {"proxy": (*PROXY, LOG_LEVEL), "upstream": (*UPSTREAM, LOG_LEVEL), "up": (*UP, LOG_LEVEL)}
NAMED = {option.name: option for option in ALL}
KIB, MIB = 1024, 1024 * 1024


def read(*words: str, table: tuple[Option, ...] = PROXY, **environment: str) -> dict[str, Any]:
    return values("deltawire x", table, parser("deltawire x", "about", table).parse_args(words), environment)


def refused(*words: str, table: tuple[Option, ...] = PROXY, **environment: str) -> str:
    with pytest.raises(BadSettingError) as raised:
        read(*words, table=table, **environment)
    line = str(raised.value)
    assert line.startswith("deltawire x: ")
    assert "\n" not in line
    return line


# The tables


@pytest.mark.parametrize("name", TABLES)
def test_names_are_unique_and_each_default_is_one_that_its_option_reads(name: str) -> None:
    table = TABLES[name]
    assert len({option.name for option in table}) == len(table)
    for option in table:
        option.read(option.default)


@pytest.mark.parametrize("option", NAMED.values(), ids=NAMED)
def test_an_option_tells_its_environment_variable_its_default_and_what_it_is(option: Option) -> None:
    assert re.fullmatch(r"[a-z][a-z-]*[a-z]", option.name)
    assert option.environment == "DELTAWIRE_" + option.name.upper().replace("-", "_")
    assert option.help
    shown = " ".join(parser("x", "about", [option]).format_help().split())
    assert f"--{option.name} " in shown
    assert option.environment in shown
    assert not option.default or f"default {option.default}" in shown


@pytest.mark.parametrize("option", [one for one in ALL if one.read in {options.size, options.duration, options.pace}])
def test_an_option_with_a_unit_says_which(option: Option) -> None:
    assert re.search(r"\b(bytes|seconds|tokens)\b", option.help)


@pytest.mark.parametrize("name", TABLES)
def test_help_says_what_kind_of_value_an_option_takes_and_how_units_are_written(name: str) -> None:
    shown = " ".join(parser("x", "about", TABLES[name]).format_help().split())
    assert "--max-body SIZE" in shown
    assert "--drain TIME" in shown
    assert "--secret TEXT" in shown
    assert "SIZE is in bytes or carries KiB, MiB or GiB; TIME is in seconds or carries ms, s, m or h." in shown


# Where a value comes from


def test_the_command_line_wins_over_the_environment_and_that_over_the_default() -> None:
    assert read()["transport"] == "auto"
    assert read(DELTAWIRE_TRANSPORT="full")["transport"] == "full"
    assert read("--transport", "http", DELTAWIRE_TRANSPORT="full")["transport"] == "http"
    assert read("--transport=http")["transport"] == "http"


def test_an_option_that_takes_many_may_stand_again_and_hold_several() -> None:
    assert read("--fault", "a=0.5, b=1", "--fault", "c=0", table=CHAOS)["fault"] == {"a": 0.5, "b": 1.0, "c": 0.0}
    assert read(table=CHAOS, DELTAWIRE_FAULT="a=0.25")["fault"] == {"a": 0.25}
    assert read("--transport", "full", "--transport", "http")["transport"] == "http"


def test_an_empty_variable_is_an_unset_one_and_others_are_not_read() -> None:
    assert read(DELTAWIRE_TRANSPORT="", TRANSPORT="http", DELTAWIRE_NOTHING="x") == read()


def test_errors_name_the_option_or_the_variable_and_quote_the_value() -> None:
    assert refused("--listen", "x") == "deltawire x: --listen: HOST:PORT is needed, not 'x'"
    assert refused(DELTAWIRE_LISTEN="a\nb") == "deltawire x: DELTAWIRE_LISTEN: HOST:PORT is needed, not 'a\\nb'"
    assert refused("--transport", "x").endswith("--transport: one of auto, full, http is needed, not 'x'")


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--secret", "hunter2"], {}),
        (["--secret", "\udcffhunter2hunter2hunter2"], {}),
        ([], {"DELTAWIRE_SECRET": "hunter2"}),
        (["--state", "redis://user:hunter2@[host"], {}),
        (["--state", "http://user:hunter2@host"], {}),
        (["--state", "redis://user:hunter2@host/x"], {}),
        (["--state", "redis://host?password=hunter2"], {}),
        (["--upstream", "https://user:hunter2@host/v1"], {}),
        (["--upstream", "https://host/v1?key=hunter2"], {}),
        (["--upstream", "https://user:hunter2@[host/v1"], {}),
        (["--upstream", "https://user:hunter2@host:99999/v1"], {}),
        (["--upstream", "https://user@host:hunter2/v1"], {}),
        (["--secrte", "hunter2"], {}),
        (["--secrte=hunter2"], {}),
        (["hunter2"], {}),
        (["--secret", "a" * 16, "hunter2"], {}),
    ],
)
def test_nothing_that_may_be_secret_is_quoted(words: list[str], environment: dict[str, str]) -> None:
    line = refused(*words, table=PROXY, **environment)
    assert "hunter2" not in line


@pytest.mark.parametrize("url", ["http://user:hunter2@host/v1", "https://host/v1?key=hunter2"])
def test_the_url_of_an_engine_is_not_quoted(url: str) -> None:
    given = refused("--engine", f"chat:{url}", table=UPSTREAM)
    inherited = refused(table=UPSTREAM, DELTAWIRE_ENGINE=f"llamacpp:{url}")
    assert given.startswith("deltawire x: --engine: a ")
    assert inherited.startswith("deltawire x: DELTAWIRE_ENGINE: a ")
    assert given.endswith(" is needed")
    assert inherited.endswith(" is needed")


def test_a_misspelled_option_is_named_and_none_is_abbreviated() -> None:
    assert refused("--secrte=x") == "deltawire x: there is no option '--secrte'"
    assert refused("--trans", "http") == "deltawire x: there is no option '--trans'"
    assert refused("stray") == "deltawire x: there is a word too many"
    assert refused("--listen") == "deltawire x: argument --listen: expected one argument"


def test_up_takes_the_variable_of_the_sidecar_alone_behind_its_own() -> None:
    assert read(table=UP, DELTAWIRE_LISTEN="a:1")["proxy_listen"] == Address("a", 1)
    assert read(table=UP, DELTAWIRE_LISTEN="a:1", DELTAWIRE_PROXY_LISTEN="b:2")["proxy_listen"] == Address("b", 2)
    assert read("--proxy-listen", "c:3", table=UP, DELTAWIRE_LISTEN="a:1")["proxy_listen"] == Address("c", 3)
    assert read(table=UP)["proxy_listen"] == Address("127.0.0.1", 8787)


def test_up_takes_options_of_both_sides_for_the_server_with_a_prefix() -> None:
    variables = {"DELTAWIRE_ADMIN": "a:1", "DELTAWIRE_UPSTREAM_ADMIN": "b:2", "DELTAWIRE_UPSTREAM_LISTEN": "c:3"}
    found = of_server(read(table=UP, **variables))
    assert (found["admin"], found["listen"]) == (Address("b", 2), Address("c", 3))
    assert found.keys() == {option.field for option in UPSTREAM}
    assert of_server(read(table=UP, DELTAWIRE_ADMIN="a:1"))["admin"] is None


# What values may look like

GOOD: list[tuple[Callable[[str], Any], str, Any]] = [
    (options.address, "127.0.0.1:0", Address("127.0.0.1", 0)),
    (options.address, "localhost:65535", Address("localhost", 65535)),
    (options.address, "[::1]:8787", Address("::1", 8787)),
    (options.address, "[::]:80", Address("::", 80)),
    (options.size, "1", 1),
    (options.size, "10B", 10),
    (options.size, " 2 kib ", 2 * KIB),
    (options.size, "128MiB", 128 * MIB),
    (options.size, "1GiB", 1024 * MIB),
    (options.duration, "55m", 3300.0),
    (options.duration, "1.5s", 1.5),
    (options.duration, "2", 2.0),
    (options.duration, "250 ms", 0.25),
    (options.duration, "24h", 86400.0),
    (options.count, "1", 1),
    (options.count, "256", 256),
    (options.number, "0", 0),
    (options.pace, "0", 0.0),
    (options.pace, "12.5", 12.5),
    (options.base_url, "https://api.openai.com/v1", "https://api.openai.com/v1"),
    (options.base_url, "http://127.0.0.1:80/v1/", "http://127.0.0.1:80/v1"),
    (options.base_url, "HTTP://[::1]:80", "http://[::1]:80"),
    (options.base_url, "https://host?", "https://host"),
    (options.base_url, "http://my_app.ns.svc.:1", "http://my_app.ns.svc.:1"),
    (options.base_url, "https://xn--bcher-kva.example/v1", "https://xn--bcher-kva.example/v1"),
    (options.state, "memory", "memory"),
    (options.state, "redis+sentinel://u:p@a:1,b:2/main/3", "redis+sentinel://u:p@a:1,b:2/main/3"),
    (options.secret, "", None),
    (options.secret, "0123456789abcdef", b"0123456789abcdef"),
    (options.names, "", ()),
    (options.names, " X-Team ,x-b,,", ("x-team", "x-b")),
    (options.some_of("a", "b"), "b, a,", ("b", "a")),
    (options.names, "x\n", ("x",)),
    (options.some_of("a"), "none", ()),
    (options.some_of("a"), "", ()),
    (options.rates, "all=0.1", {"all": 0.1}),
    (options.rates, " a=1 ,b=0.05,,", {"a": 1.0, "b": 0.05}),
    (options.rates, "", {}),
]


@pytest.mark.parametrize(("reader", "text", "value"), GOOD)
def test_a_value_is_read(reader: Callable[[str], Any], text: str, value: Any) -> None:
    found = reader(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        *((options.address, text) for text in ("", ":80", "host", "host:", "host:x", "host:65536", "host:-1")),
        *((options.address, text) for text in ("::1:80", "::1", "[::1:80", "[::1]", "[]:80", "host:1:2", "h:\u0663")),
        *((options.address, text) for text in ("host:80 ", "host:" + "9" * 5000)),
        *((options.size, text) for text in ("", "0", "0MiB", "-1", "1.5MiB", "1MB", "1TiB", "MiB", "9" * 5000)),
        *((options.size, text) for text in ("99999999999GiB", "1" * 15 + "GiB")),
        *(
            (options.duration, text)
            for text in ("", "0", "0.0s", "-1s", "1M", "1d", "s", "inf", "nan", "9" * 400, "1e3")
        ),
        *((options.count, text) for text in ("", "0", "-1", "1.0", "x", "\u0663", "1" * 5000)),
        *((options.number, text) for text in ("", "-1", "x", "1" * 5000)),
        *((options.pace, text) for text in ("", "-1", "nan", "inf", "x")),
        *((options.base_url, text) for text in ("", "host", "ftp://host", "https://", "https:///v1", "ws://host")),
        *((options.base_url, text) for text in ("https://host/v1?a=b", "https://host/v1#a", "https://u@host/v1")),
        *(
            (options.base_url, text)
            for text in ("https://ho\nst/v1", "https://ho st/v1", "https://h:99999", "http://[a")
        ),
        *(
            (options.base_url, f"http://{host}/v1")
            for host in ("a..b", "...", "a" * 64, "h\u00e9", "x\\y", "xn--", "h/\u00e9")
        ),
        *((options.state, text) for text in ("", "Memory", "http://host", "redis://", "redis://host?db=1")),
        *((options.secret, text) for text in ("short", "a" * 15, "\udcff" * 20)),
        *((options.some_of("a", "b"), text) for text in ("c", "a,c", "a, none", "A", "a b")),
        *((options.names, text) for text in ("a b", "x:y", "x\ny", "\u00e9")),
        *((options.names, text) for text in ("Host", "connection", "a,Upgrade", "content-length", "expect")),
        *(
            (options.rates, text)
            for text in ("a", "a=", "a=x", "a=1.1", "a=-1", "a=1=1", "a=nan", "a=1e0", "a=." + "1" * 5000)
        ),
        *((options.names, text) for text in ("Sec-WebSocket-Key", "x-deltawire-features")),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(reader: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        reader(text)
    assert len(str(raised.value)) < 120


@given(st.sampled_from(ALL), st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_short_line(option: Option, text: str) -> None:
    try:
        found = values("x", [option], parser("x", "about", [option]).parse_args([f"--{option.name}={text}"]), {})
    except BadSettingError as error:
        line = str(error)
    else:
        line = ""
        assert list(found) == [option.field]
    assert "\n" not in line
    assert len(line) < 400


@given(st.integers(0, 65535), st.sampled_from(["127.0.0.1", "::1", "fe80::1%eth0", "host.example"]))
def test_every_address_is_read_as_it_is_written(port: int, host: str) -> None:
    assert options.address(str(Address(host, port))) == Address(host, port)


def test_a_limit_is_a_duration_or_none_at_all() -> None:
    assert [options.limit(text) for text in ("0", "90s", "10m")] == [0.0, 90.0, 600.0]
    for text in ("", "0s", "-1", "off"):
        with pytest.raises(ValueError, match="a duration such as"):
            options.limit(text)
