import pytest

from tests.upstream.helpers import ASKED
from upstream.stages.pipeline import EMPTY
from upstream.turns.asked import Kept
from upstream.websocket.frame import Frame
from upstream.websocket.lane import Lane
from wire.errors import ApiError, invalid_request, server_error

ONE, TWO = Frame(parent="1"), Frame(parent="2")


def _due(lane: Lane) -> int | None:
    return lane.due


def _idle(lane: Lane) -> bool:
    return lane.idle


def test_frames_run_one_at_a_time_in_the_order_of_arrival() -> None:
    lane = Lane()
    lane.enqueue(3, ONE)
    lane.enqueue(5, TWO)

    assert _due(lane) == 3
    assert lane.take() is ONE
    assert _due(lane) is None
    lane.ended()
    assert _due(lane) == 5
    assert lane.take() is TWO
    assert _idle(lane) is False
    lane.ended()
    assert _due(lane) is None
    assert _idle(lane) is True


def test_only_the_latest_response_can_be_continued() -> None:
    lane = Lane()
    first, second = Kept("a", EMPTY, ASKED), Kept("b", EMPTY, ASKED)
    lane.settled(first)
    assert lane.find("a") is first
    lane.settled(second)

    assert lane.find("a") is None
    assert lane.find("b") is second


def test_the_latest_response_of_another_lane_can_be_continued_as_well() -> None:
    lanes: list[Lane] = []
    lanes += [Lane(None, lanes), Lane("b", lanes)]
    kept = Kept("a", EMPTY, ASKED)
    lanes[0].settled(kept)

    assert lanes[1].find("a") is kept
    assert lanes[1].latest is None
    lanes[0].settled(Kept("c", EMPTY, ASKED))
    assert lanes[1].find("a") is None


@pytest.mark.parametrize("parent", [None, "other"])
def test_a_turn_that_leaves_nothing_to_continue_leaves_a_latest_that_it_did_not_continue_alone(
    parent: str | None,
) -> None:
    lane = Lane()
    lane.settled(Kept("a", EMPTY, ASKED))
    lane.settled(None, parent)

    assert lane.find("a") is not None


def test_a_continuation_that_leaves_nothing_to_continue_evicts_its_parent() -> None:
    lane = Lane()
    lane.settled(Kept("a", EMPTY, ASKED))
    lane.settled(None, "a")

    assert lane.find("a") is None


@pytest.mark.parametrize("error", [invalid_request("no"), server_error("no"), invalid_request("no", status=404)])
def test_a_refused_continuation_evicts_its_parent(error: ApiError) -> None:
    lane = Lane()
    lane.settled(Kept("a", EMPTY, ASKED))
    lane.refused(error, "a")

    assert lane.find("a") is None


def test_a_continuation_that_breaks_off_evicts_its_parent() -> None:
    lane = Lane()
    lane.settled(Kept("a", EMPTY, ASKED))
    lane.failed("a")

    assert lane.find("a") is None


@pytest.mark.parametrize("parent", [None, "other"])
def test_a_refusal_of_anything_else_keeps_it(parent: str | None) -> None:
    lane = Lane()
    lane.settled(Kept("a", EMPTY, ASKED))
    lane.refused(invalid_request("no"), parent)

    assert lane.find("a") is not None


def test_a_refused_fork_keeps_the_parent_on_its_lane() -> None:
    lanes: list[Lane] = []
    lanes += [Lane(None, lanes), Lane("fork", lanes)]
    lanes[0].settled(Kept("a", EMPTY, ASKED))
    lanes[1].refused(server_error("no"), "a")

    assert lanes[0].find("a") is not None
    assert lanes[1].find("a") is not None


def test_an_unknown_digest_keeps_the_parent() -> None:
    lane = Lane()
    lane.settled(Kept("a", EMPTY, ASKED))
    lane.refused(invalid_request("no", code="deltawire_envelope_unknown", status=409), "a")

    assert lane.find("a") is not None
