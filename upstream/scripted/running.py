"""The scripted upstream as a command for users: it listens, and tells every fault that it shows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from upstream.scripted.chaos import Chaos
from upstream.scripted.server import ScriptedUpstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from upstream.scripted.faults import RefuseUpgrade
    from upstream.scripted.script import Accept, Play
    from upstream.scripted.turn import Turn

KEPT = 10_000
"""Turns that are remembered; a client that continues an older one meets a service that has forgotten it."""
_log = structlog.get_logger("deltawire.chaos")


@dataclass(frozen=True, slots=True)
class Running:
    """A faulty upstream that serves. `told`: lines for whoever started it."""

    told: tuple[str, ...]
    upstream: ScriptedUpstream

    async def close(self) -> None:
        """End it, and all connections with it."""
        await self.upstream.__aexit__(None, None, None)


class _Telling(Chaos):
    def play(self, turn: Turn) -> Play:
        name = self.fault(turn)
        if name:
            _log.info("fault", fault=name, turn=turn.number, transport=turn.transport)
        return super().play(turn)

    def upgrade(self, headers: Mapping[str, str]) -> Accept | RefuseUpgrade:
        answer = super().upgrade(headers)
        if self.dialled:
            _log.info("fault", fault=self.dialled)
        return answer


async def start(host: str, port: int, *, fault: Mapping[str, float], seed: int, pause: float) -> Running:
    """Listen. Raises `OSError` when the address cannot be had, `ValueError` for a fault or a rate that is none."""
    chaos = _Telling(fault, seed=seed, pause=pause)
    upstream = ScriptedUpstream(
        chaos.play,
        upgrades=chaos.upgrade,
        keep=KEPT,
        name=f"{secrets.token_hex(4)}_",
        listen=(host, port),
    )
    await upstream.__aenter__()
    origin = upstream.url.removesuffix("/v1")
    return Running(
        (f"deltawire chaos-upstream listening on {origin}", f"export DELTAWIRE_UPSTREAM={upstream.url}"), upstream
    )
