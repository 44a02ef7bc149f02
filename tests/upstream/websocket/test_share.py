from __future__ import annotations

from typing import TYPE_CHECKING

from tests.upstream.helpers import ASKED, items, members, turn
from tests.upstream.sockets import connected
from upstream.kept.budget import CONNECTION, KEY, LANE, PROCESS, WHOLE, Budget, Scope, weight
from upstream.stages.pipeline import EMPTY, extend
from upstream.turns.asked import Kept
from upstream.websocket.envelope_cache import EnvelopeCache
from upstream.websocket.lane import Lane
from upstream.websocket.share import Share

if TYPE_CHECKING:
    import aiohttp

MIB = 1024 * 1024


def kept(name: str, size: int = 1000) -> Kept:
    return Kept(name, extend(EMPTY, items("x" * size)), ASKED)


def budget(**limits: int) -> Budget:
    return Budget({LANE: MIB, CONNECTION: MIB, KEY: MIB, PROCESS: MIB} | limits)


def cache() -> EnvelopeCache:
    return EnvelopeCache(entries=8, limit=MIB)


def test_a_lanes_latest_response_is_charged_to_its_connection_key_and_the_process() -> None:
    whole = budget()
    share, lane = Share(whole, b"me", None), Lane()
    lane.settled(kept("a"))
    share.lane(lane)
    expected = weight(kept("a").context) + ASKED.size

    assert whole.used() == whole.used(Scope(KEY, b"me")) == whole.used(Scope(CONNECTION, share)) == expected
    assert whole.used(Scope(LANE, lane)) == expected


def test_a_later_response_takes_the_place_of_the_earlier() -> None:
    whole = budget()
    share, lane = Share(whole, b"me", None), Lane()
    for name, size in (("a", 5000), ("b", 10)):
        lane.settled(kept(name, size))
        share.lane(lane)
        share.lane(lane)

    assert whole.used() == weight(kept("b", 10).context) + ASKED.size


def test_a_lane_that_lost_its_response_is_charged_nothing() -> None:
    whole = budget()
    share, lane = Share(whole, b"me", None), Lane()
    share.lane(lane)
    lane.settled(kept("a"))
    share.lane(lane)
    lane.failed("a")
    share.lane(lane)

    assert whole.used() == 0


def test_the_largest_lane_of_a_connection_goes_and_can_come_again() -> None:
    whole = budget(connection=20_000)
    share, small, large = Share(whole, b"me", None), Lane("small"), Lane("large")
    for lane, size in ((large, 9000), (small, 3000)):
        lane.settled(kept(lane.name or "", size))
        share.lane(lane)

    assert large.find("large") is None
    assert small.find("small") is not None
    large.settled(kept("again", 100))
    share.lane(large)
    assert large.find("again") is not None


def test_a_state_that_is_larger_than_a_lane_may_hold_is_not_kept() -> None:
    share, lane = Share(budget(lane=10_000), b"me", None), Lane()
    lane.settled(kept("a", 10_000))
    share.lane(lane)

    assert lane.latest is None


def test_envelope_members_count_and_go_as_the_largest() -> None:
    whole = budget(process=30_000)
    envelopes = cache()
    share, lane = Share(whole, b"me", envelopes), Lane()
    envelopes.take(members(instructions="x" * 20_000))
    share.envelopes()
    share.envelopes()
    assert whole.used() == envelopes.bytes > 20_000
    lane.settled(kept("a", 8_000))
    share.lane(lane)

    assert envelopes.bytes == 0
    assert lane.latest is not None
    envelopes.take(members(instructions="x" * 20_000))
    share.envelopes()
    assert envelopes.bytes == 0
    assert whole.used() == weight(lane.latest.context) + lane.latest.asked.size


def test_a_connection_that_ended_holds_nothing() -> None:
    whole = budget()
    envelopes = cache()
    share, lane = Share(whole, b"me", envelopes), Lane()
    envelopes.take(members(instructions="x" * 20_000))
    share.envelopes()
    lane.settled(kept("a"))
    share.lane(lane)
    share.close()

    assert whole.used(WHOLE) == 0
    assert not whole._accounts


def test_members_that_come_again_are_charged_again() -> None:
    whole = budget()
    envelopes = cache()
    share = Share(whole, b"me", envelopes)
    for _ in range(2):
        envelopes.take(members(instructions="x" * 20_000))
        share.envelopes()
        assert whole.used() == envelopes.bytes > 20_000
        whole.release(envelopes)
        envelopes.evict()


async def test_a_continuation_of_what_had_to_go_is_told_that_it_is_gone(http: aiohttp.ClientSession) -> None:
    async with connected(http, max_connection_cache=200_000) as (_, socket):
        ids = []
        for name in ("large", "small"):
            text = "x" * (150_000 if name == "large" else 100_000)
            events = await turn(socket, model="sim", input=text, store=False, stream_id=name)
            ids.append(events[-1]["response"]["id"])
        (gone,) = await turn(
            socket, model="sim", input="y", store=False, stream_id="large", previous_response_id=ids[0]
        )
        kept_on = await turn(
            socket, model="sim", input="y", store=False, stream_id="small", previous_response_id=ids[1]
        )

    assert (gone["status"], gone["error"]["code"]) == (400, "previous_response_not_found")
    assert kept_on[-1]["type"] == "response.completed"
