"""The sidecar before a shipped server whose lanes lose or double what they hold: found out on every such turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tests.support.rig import Talk, rigged
from tests.upstream.helpers import serving
from upstream.stages import pipeline
from upstream.turns.admit import Admission

if TYPE_CHECKING:
    from collections.abc import Callable

    from upstream.stages.items import Item
    from upstream.turns.admit import Turn
    from upstream.turns.asked import Kept

TURNS = 12
FIRST, DELTA, CAUGHT = ("full", "first_turn"), ("delta", None), ("full", "context_mismatch")
FAULTS: dict[str, Callable[[list[Item]], list[Item]]] = {
    "loses the first": lambda held: held[1:],
    "loses the last": lambda held: held[:-1],
    "doubles one": lambda held: [held[0], *held],
    "swaps two": lambda held: [held[1], held[0], *held[2:]],
}


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_turn_on_a_lane_that_holds_something_else_is_caught_and_no_other(
    fault: str, *, store: bool
) -> None:
    settle, settled = Admission.settle, 0

    def faulty(self: Admission, turn: Turn) -> Kept | None:
        nonlocal settled
        settled += 1
        kept = settle(self, turn)
        if kept is None or settled % 2:
            return kept
        return replace(kept, context=pipeline.extend(self.reader.proven, FAULTS[fault](list(kept.context.items))))

    with patch.object(Admission, "settle", faulty):
        async with serving() as server, rigged(url=f"{server.url}/v1") as rig:
            talk = Talk(rig, store=store)
            for number in range(TURNS):
                got = await talk.say(f"turn {number}")
                assert (got.status, got.response["status"]) == (200, "completed")
            assert talk.ways == [FIRST, *[DELTA, CAUGHT] * (TURNS // 2)][:TURNS]
            assert (await rig.metrics())("deltawire_retries_total", cause="context_mismatch") == TURNS // 2 - 1
            rig.checked = False  # nothing went to the upstream that checks


@pytest.mark.parametrize("options", [{"tool_turns": 0}, {"features": ("context",)}, {"lanes": "off"}])
async def test_an_honest_lane_is_never_suspected(options: dict[str, object]) -> None:
    async with serving(**options) as server, rigged(url=f"{server.url}/v1") as rig:
        for store in (True, False):
            talk = Talk(rig, store=store, include=["reasoning.encrypted_content"])
            for number in range(TURNS):
                await talk.say(f"turn {number}")
            assert talk.ways == [FIRST] + [DELTA] * (TURNS - 1)
        turns = rig.running.sidecar.recent.newest()
        assert [turn["proved"] for turn in turns].count(True) == 2 * (TURNS - 1)
        rig.checked = False
