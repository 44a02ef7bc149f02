import pytest

from upstream.lane import Kept, Lane
from upstream.pipeline import EMPTY
from wire.errors import ApiError, invalid_request, server_error


def test_frames_run_one_at_a_time_in_the_order_of_arrival() -> None:
    lane = Lane(8)
    lane.enqueue(b"1")
    lane.enqueue(b"2")

    assert lane.take() == b"1"
    assert lane.take() is None
    lane.settled(None)
    assert lane.take() == b"2"
    assert lane.idle is False
    lane.settled(None)
    assert lane.take() is None
    assert lane.idle is True


def test_a_full_queue_takes_no_more() -> None:
    lane = Lane(1)

    assert lane.enqueue(b"1") is True
    assert lane.enqueue(b"2") is False
    lane.take()
    assert lane.enqueue(b"2") is True


def test_only_the_latest_response_can_be_continued() -> None:
    lane = Lane(8)
    first, second = Kept("a", EMPTY), Kept("b", EMPTY)
    lane.settled(first)
    assert lane.find("a") is first
    lane.settled(second)

    assert lane.find("a") is None
    assert lane.find("b") is second


@pytest.mark.parametrize("parent", [None, "other"])
def test_a_turn_that_leaves_nothing_to_continue_leaves_a_latest_that_it_did_not_continue_alone(
    parent: str | None,
) -> None:
    lane = Lane(8)
    lane.settled(Kept("a", EMPTY))
    lane.settled(None, parent)

    assert lane.find("a") is not None


def test_a_continuation_that_leaves_nothing_to_continue_evicts_its_parent() -> None:
    lane = Lane(8)
    lane.settled(Kept("a", EMPTY))
    lane.settled(None, "a")

    assert lane.find("a") is None


@pytest.mark.parametrize("error", [invalid_request("no"), server_error("no"), invalid_request("no", status=404)])
def test_a_refused_continuation_evicts_its_parent(error: ApiError) -> None:
    lane = Lane(8)
    lane.settled(Kept("a", EMPTY))
    lane.refused(error, "a")

    assert lane.find("a") is None
    assert lane.idle is True


@pytest.mark.parametrize("parent", [None, "other"])
def test_a_refusal_of_anything_else_keeps_it(parent: str | None) -> None:
    lane = Lane(8)
    lane.settled(Kept("a", EMPTY))
    lane.refused(invalid_request("no"), parent)

    assert lane.find("a") is not None


def test_an_unknown_digest_keeps_the_parent() -> None:
    lane = Lane(8)
    lane.settled(Kept("a", EMPTY))
    lane.refused(invalid_request("no", code="deltawire_envelope_unknown", status=409), "a")

    assert lane.find("a") is not None
