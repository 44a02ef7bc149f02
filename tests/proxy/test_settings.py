"""Settings as values."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from proxy.commands import PROXY
from proxy.readers import address
from proxy.settings import Address, ProxySettings


@pytest.mark.parametrize(("one", "text"), [(Address("127.0.0.1", 80), "127.0.0.1:80"), (Address("::1", 0), "[::1]:0")])
def test_an_address_is_written_as_it_is_read(one: Address, text: str) -> None:
    assert str(one) == text
    assert address(text) == one


def test_settings_show_neither_the_secret_nor_the_state_url() -> None:
    shown = repr(ProxySettings(secret=b"sk-secret", state="redis://user:hunter2@host", forward_headers=("x-a",)))
    assert shown.startswith("ProxySettings(listen=127.0.0.1:8787, ")
    assert "sk-secret" not in shown
    assert "hunter2" not in shown


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ProxySettings().transport = "http"  # type: ignore[misc]


def test_settings_and_options_have_the_same_defaults() -> None:
    settings = ProxySettings()
    renamed = {"forward_header": "forward_headers"}
    for option in PROXY:
        assert getattr(settings, renamed.get(option.field, option.field)) == option.read(option.default), option.name


def test_a_setting_that_is_a_word_takes_the_words_of_its_option_and_no_other() -> None:
    hints = get_type_hints(ProxySettings)
    words = {
        option: get_args(hints[option.field]) for option in PROXY if get_origin(hints.get(option.field)) is Literal
    }
    assert {option.name for option in words} == {
        "transport",
        "echo",
        "one-shot",
        "append",
        "link-compression",
        "upstream-dialect",
        "replay-ambiguous",
    }
    for option, taken in words.items():
        assert [option.read(word) for word in taken] == list(taken)
        with pytest.raises(ValueError, match=f"^one of {', '.join(taken)} is needed$"):
            option.read("")
