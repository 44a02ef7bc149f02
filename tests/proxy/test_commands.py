"""The tables: every option has a name, an environment variable, a default that it reads itself, and a help line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import readers
from proxy.commands import CHAOS, LOG_LEVEL, PROXY, UP, UPSTREAM, of_server
from proxy.options import BadSettingError, Option, parser, values
from proxy.settings import Address

ALL = (*PROXY, *UPSTREAM, *UP, *CHAOS, LOG_LEVEL)
TABLES = {"proxy": (*PROXY, LOG_LEVEL), "upstream": (*UPSTREAM, LOG_LEVEL), "up": (*UP, LOG_LEVEL)}
NAMED = {option.name: option for option in ALL}


def read(*words: str, **environment: str) -> dict[str, Any]:
    return values("deltawire x", UP, parser("deltawire x", "about", UP).parse_args(words), environment)


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


@pytest.mark.parametrize("option", [one for one in ALL if one.read in {readers.size, readers.duration, readers.pace}])
def test_an_option_with_a_unit_says_which(option: Option) -> None:
    assert re.search(r"\b(bytes|seconds|tokens)\b", option.help)


@pytest.mark.parametrize("name", TABLES)
def test_help_says_what_kind_of_value_an_option_takes_and_how_units_are_written(name: str) -> None:
    shown = " ".join(parser("x", "about", TABLES[name]).format_help().split())
    assert "--max-body SIZE" in shown
    assert "--drain TIME" in shown
    assert "--secret TEXT" in shown
    assert "SIZE is in bytes or carries KiB, MiB or GiB; TIME is in seconds or carries ms, s, m or h." in shown


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


def test_up_takes_the_variable_of_the_sidecar_alone_behind_its_own() -> None:
    assert read(DELTAWIRE_LISTEN="a:1")["proxy_listen"] == Address("a", 1)
    assert read(DELTAWIRE_LISTEN="a:1", DELTAWIRE_PROXY_LISTEN="b:2")["proxy_listen"] == Address("b", 2)
    assert read("--proxy-listen", "c:3", DELTAWIRE_LISTEN="a:1")["proxy_listen"] == Address("c", 3)
    assert read()["proxy_listen"] == Address("127.0.0.1", 8787)


def test_up_takes_options_of_both_sides_for_the_server_with_a_prefix() -> None:
    variables = {"DELTAWIRE_ADMIN": "a:1", "DELTAWIRE_UPSTREAM_ADMIN": "b:2", "DELTAWIRE_UPSTREAM_LISTEN": "c:3"}
    found = of_server(read(**variables))
    assert (found["admin"], found["listen"]) == (Address("b", 2), Address("c", 3))
    assert found.keys() == {option.field for option in UPSTREAM}
    assert of_server(read(DELTAWIRE_ADMIN="a:1"))["admin"] is None
