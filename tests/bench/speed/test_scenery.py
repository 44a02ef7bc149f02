import pytest

from bench.speed import scenery, tun
from bench.speed.scenery import Network
from bench.speed.turns import TurnFailed
from bench.speed.ways import NONE, SIDECAR


@pytest.mark.parametrize("linked", [True, False])
async def test_a_loop_crosses_the_network_and_everything_is_counted(
    monkeypatch: pytest.MonkeyPatch, *, linked: bool
) -> None:
    """With a link where one can be had, and with a delay instead."""
    if not linked:
        monkeypatch.setattr(tun, "available", lambda: False)
    async with scenery.opened((NONE, SIDECAR), Network(0.02, 0), 0.0) as places:
        for place in places:
            outcome = await place.loop(calls=2, idle=0.0, seed=1)
            assert all(turn.first >= 0.02 for turn in outcome.loop.turns)
            assert outcome.carried.up > 38_000
            assert outcome.carried.down > 38_000
            assert outcome.server > 0
            assert (outcome.sidecar > 0) is (place.way is SIDECAR)
        plain, sidecar = places
        assert plain.base.startswith("https://")
        assert sidecar.base.startswith("http://")


async def test_a_loop_that_fails_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tun, "available", lambda: False)
    async with scenery.opened((NONE,), Network(0, 0), 0.0) as (place,):
        broken = scenery.Place(place.way, "http://127.0.0.1:9/v1", place.server, None, place.counts, (), place.trusted)
        with pytest.raises(TurnFailed, match="an agent failed"):
            await broken.loop(calls=1, idle=0.0, seed=1)
