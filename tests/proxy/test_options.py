"""Options: where their values come from, and what is said of those that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.commands import CHAOS, PROXY, UPSTREAM
from proxy.options import BadSettingError, Option, parser, values


def read(*words: str, table: tuple[Option, ...] = PROXY, **environment: str) -> dict[str, Any]:
    return values("deltawire x", table, parser("deltawire x", "about", table).parse_args(words), environment)


def refused(*words: str, table: tuple[Option, ...] = PROXY, **environment: str) -> str:
    with pytest.raises(BadSettingError) as raised:
        read(*words, table=table, **environment)
    line = str(raised.value)
    assert line.startswith("deltawire x: ")
    assert "\n" not in line
    return line


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
