from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from proxy.commands import CHAOS
from proxy.options import BadSettingError
from proxy.serve import serve, told
from telemetry import logs

if TYPE_CHECKING:
    from proxy.serve import Closer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_what_was_started_in_order(number: signal.Signals) -> None:
    closed: list[str] = []

    async def start() -> list[Closer]:
        async def first() -> None:
            closed.append("first")

        async def second() -> None:
            closed.append("second")

        os.kill(os.getpid(), number)
        return [first, second]

    assert serve("deltawire x", start) == 0
    assert closed == ["first", "second"]


def test_what_could_not_be_written_is_told_with_its_count_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    async def start() -> list[Closer]:
        async def two() -> int:
            return 2

        async def none() -> None:
            return None

        os.kill(os.getpid(), signal.SIGTERM)
        return [two, none, two]

    assert serve("deltawire x", start) == 3
    assert capsys.readouterr().err == "deltawire x: 4 records of turns could not be written\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("unknown engine"), "deltawire x: unknown engine"),
        (OSError(98, "Address already in use"), "deltawire x: cannot listen: Address already in use"),
    ],
)
def test_what_cannot_start_is_one_line_with_the_command(error: Exception, line: str) -> None:
    async def start() -> list[Closer]:
        raise error

    with pytest.raises(BadSettingError) as bad:
        serve("deltawire x", start)
    assert str(bad.value) == line


def test_what_a_command_is_told_has_every_option_but_the_level_which_holds_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels: list[str] = []
    monkeypatch.setattr(logs, "configure", levels.append)
    found = told("deltawire x", "about", CHAOS, ["--seed", "7", "--log-level", "debug"], {"DELTAWIRE_PAUSE": "1s"})
    assert (found["seed"], found["pause"]) == (7, 1.0)
    assert found.keys() == {option.field for option in CHAOS}
    assert levels == ["debug"]
