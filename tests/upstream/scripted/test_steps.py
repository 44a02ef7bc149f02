from upstream.scripted.steps import Binary, Close, Step, Text, after


def test_events_are_counted_and_other_steps_are_not() -> None:
    steps: list[Step] = [Text(b"1"), Binary(b"x"), Text(b"2"), Close(1000)]
    assert [after(steps, count) for count in (0, 1, 2)] == [0, 1, 3]


def test_counting_past_the_last_event_gives_the_end() -> None:
    assert after([Text(b"1"), Close(1000)], 5) == 2
    assert after([], 0) == 0
