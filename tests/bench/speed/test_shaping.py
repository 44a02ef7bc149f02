from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bench.speed.shaping import Direction

_SIZES = st.lists(st.integers(1, 1500), min_size=1, max_size=50)


def test_without_a_limit_a_packet_is_only_delayed() -> None:
    assert Direction(delay=0.02, rate=0, room=0).due(5.0, 1500) == 5.02


def test_packets_wait_for_those_before_them() -> None:
    direction = Direction(delay=0.0, rate=8000, room=10_000)
    assert [direction.due(0.0, 1000), direction.due(0.0, 1000), direction.due(10.0, 1000)] == [1.0, 2.0, 11.0]


def test_what_finds_no_room_is_lost_and_counted_and_takes_no_time() -> None:
    direction = Direction(delay=0.0, rate=8000, room=2000)
    assert [direction.due(0.0, 1000) for _ in range(3)] == [1.0, 2.0, None]
    assert direction.due(1.0, 1000) == 3.0
    assert (direction.bytes, direction.lost) == (3000, 1)


@given(_SIZES, st.floats(0, 0.2), st.sampled_from([0.0, 1e6, 20e6]))
def test_packets_come_out_in_order_and_never_faster_than_the_rate(sizes: list[int], delay: float, rate: float) -> None:
    direction = Direction(delay, rate, room=1 << 30)
    found = [due for size in sizes if (due := direction.due(0.0, size)) is not None]
    assert len(found) == len(sizes)
    assert all(one <= next_ for one, next_ in pairwise(found))
    if rate:
        assert found[-1] >= sum(sizes) * 8 / rate + delay - 1e-9
