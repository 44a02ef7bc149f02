"""Which turn and which connection shows which fault: chosen by rates, and the same again for the same seed."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from upstream.scripted.answers import function_call, message, reasoning
from upstream.scripted.catalogue import TURNS
from upstream.scripted.handshakes import HANDSHAKES
from upstream.scripted.script import Accept, Play

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from upstream.scripted.faults import RefuseUpgrade
    from upstream.scripted.turn import Turn

Json = dict[str, Any]
ALL = "all"
"""Stands for all faults of turns, each of which has an equal part of its rate where it is not named itself."""
TOOL_TURNS = 2
"""Calls of offered tools in a row, before the answer is a message."""
_ROUNDING = 1e-9


def listing() -> list[str]:
    """Lines that tell all faults, those of turns first."""
    told = {name: fault.wire for name, fault in TURNS.items()} | {name: one.wire for name, one in HANDSHAKES.items()}
    width = max(map(len, told))
    return [f"{name:{width}}  {wire}" for name, wire in told.items()]


class Chaos:
    """Chooses faults. `rates`: parts of all turns (of all handshakes) by name, from 0 to 1; `pause`: seconds.

    Raises `ValueError` for a name that is none, and for rates of more than everything.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        *,
        seed: int = 0,
        pause: float = 5.0,
        items: Callable[[Turn], Sequence[Json]] | None = None,
    ) -> None:
        wrong = sorted(rates.keys() - {ALL} - TURNS.keys() - HANDSHAKES.keys())
        if wrong:
            raise ValueError(f"there is no fault {wrong[0]!r}; --list tells them")
        spread = rates.get(ALL, 0.0) / len(TURNS)
        self._turns = _limits({name: rates.get(name, spread) for name in TURNS})
        self._handshakes = _limits({name: rates.get(name, 0.0) for name in HANDSHAKES})
        self._seed = seed
        self._pause = pause
        self._items = items or ordinary
        self._dials = 0
        self.dialled = ""
        """The fault of the latest handshake; empty when it had none."""

    def fault(self, turn: Turn) -> str:
        """The fault of a turn; empty when it has none, and where it cannot show the one that it was to have."""
        name = self._drawn(self._turns, f"turn {turn.number}")
        return name if name and TURNS[name].make(turn, self._pause) is not None else ""

    def play(self, turn: Turn) -> Play:
        """The answer to a turn, with its fault."""
        name = self.fault(turn)
        fault = TURNS[name].make(turn, self._pause) if name else None
        return Play(items=self._items(turn), faults=[] if fault is None else [fault])

    def upgrade(self, headers: Mapping[str, str]) -> Accept | RefuseUpgrade:
        """How the next handshake is answered, whoever it is from."""
        del headers
        self._dials += 1
        self.dialled = self._drawn(self._handshakes, f"dial {self._dials}")
        return HANDSHAKES[self.dialled].answer if self.dialled else Accept()

    def _drawn(self, limits: Mapping[str, float], what: str) -> str:
        drawn = random.Random(f"{self._seed} {what}").random()  # noqa: S311 - repeatable on purpose
        return next((name for name, limit in limits.items() if drawn < limit), "")


def ordinary(turn: Turn) -> list[Json]:
    """What an agent's model answers: calls of the first function on offer, then a message; reasoning where asked."""
    body = turn.body
    sealed = "reasoning.encrypted_content" in _list(body.get("include"))
    thought = [reasoning(f"sealed-{turn.number}")] if sealed else []
    offered = [tool for tool in _list(body.get("tools")) if isinstance(tool, dict) and tool.get("type") == "function"]
    tools = [tool["name"] for tool in offered if isinstance(tool.get("name"), str)]
    if tools and _called(turn) < TOOL_TURNS:
        return [*thought, function_call(f"call_{turn.number}", tools[0])]
    return [*thought, message(f"answer {turn.number}")]


def _called(turn: Turn) -> int:
    """Outputs of tools since the user last spoke."""
    count = 0
    for item in reversed(turn.context):
        value: Any = item.value
        if not isinstance(value, dict) or value.get("role") in ("user", "system", "developer"):
            break
        count += value.get("type") == "function_call_output"
    return count


def _list(value: object) -> list[Any]:
    """The value, if it is a list: a request may have anything anywhere."""
    return value if isinstance(value, list) else []


def _limits(rates: Mapping[str, float]) -> dict[str, float]:
    """Upper ends of the parts of 0 to 1 that the rates are."""
    limits = dict(zip(rates, accumulate(rates.values()), strict=True))
    if min(rates.values()) < 0 or max(limits.values()) > 1 + _ROUNDING:
        raise ValueError("rates are parts of everything, from 0 to 1 together")
    return limits
