from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from proxy.options import BadSettingError
from proxy.serve import serve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_what_was_started_in_order(number: signal.Signals) -> None:
    closed: list[str] = []

    async def start() -> list[Callable[[], Awaitable[None]]]:
        async def first() -> None:
            closed.append("first")

        async def second() -> None:
            closed.append("second")

        os.kill(os.getpid(), number)
        return [first, second]

    assert serve("deltawire x", start) == 0
    assert closed == ["first", "second"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("unknown engine"), "deltawire x: unknown engine"),
        (OSError(98, "Address already in use"), "deltawire x: cannot listen: Address already in use"),
    ],
)
def test_what_cannot_start_is_one_line_with_the_command(error: Exception, line: str) -> None:
    async def start() -> list[Callable[[], Awaitable[None]]]:
        raise error

    with pytest.raises(BadSettingError) as bad:
        serve("deltawire x", start)
    assert str(bad.value) == line
