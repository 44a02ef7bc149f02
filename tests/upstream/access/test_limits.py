import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.access.limits import REQUESTS, TOKENS, Bucket, Meter, spoken
from wire.errors import ApiError

_rate = st.integers(1, 100_000)
_asks = st.lists(st.tuples(st.floats(0, 30), st.integers(0, 200_000)), max_size=60)


def refused(meter: Meter, kind: str, amount: int, now: float) -> ApiError:
    with pytest.raises(ApiError) as caught:
        meter.take(kind, amount, now)
    assert (caught.value.status, caught.value.code, caught.value.type) == (429, "rate_limit_exceeded", kind)
    return caught.value


def taken(rate: int, asks: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """What was given, and when."""
    meter, now, given = Meter(tokens=Bucket(rate)), 0.0, []
    for pause, amount in asks:
        now += pause
        try:
            meter = meter.take(TOKENS, amount, now)
        except ApiError:
            continue
        given.append((now, amount))
    return given


@given(_rate, _asks)
def test_no_stretch_of_time_gives_more_than_the_bucket_and_what_flows_in(
    rate: int, asks: list[tuple[float, int]]
) -> None:
    given = taken(rate, asks)
    for first, (begin, _) in enumerate(given):
        total = 0
        for end, amount in given[first:]:
            total += amount
            assert total <= rate * (1 + (end - begin) / 60) * (1 + 1e-9) + 1e-6


@given(_rate, _asks, st.integers(0, 100_000))
def test_after_the_wait_it_is_there_and_just_before_it_is_not(
    rate: int, asks: list[tuple[float, int]], amount: int
) -> None:
    bucket, now = Bucket(rate), 0.0
    for pause, used in asks:
        now += pause
        bucket = bucket.charge(used, now)
    wait = bucket.wait(amount, now)
    if amount > rate:
        assert math.isinf(wait)
    else:
        assert bucket.wait(amount, now + wait) <= 1e-6
        if wait > 0.01:
            assert bucket.wait(amount, now + wait - 0.01) > 0


@given(_rate, st.integers(0, 10**6), st.floats(0, 10**6))
def test_what_remains_never_leaves_the_bounds_and_is_all_after_the_reset(rate: int, used: int, now: float) -> None:
    bucket = Bucket(rate).charge(used, now)

    assert 0 <= bucket.remaining(now) <= rate
    assert bucket.remaining(now + bucket.reset(now) + 1e-3) == rate


@given(_rate, st.lists(st.integers(0, 1000)))
def test_charges_add_up(rate: int, amounts: list[int]) -> None:
    one_by_one = Bucket(rate)
    for amount in amounts:
        one_by_one = one_by_one.charge(amount, 5.0)

    assert one_by_one.reset(5.0) == pytest.approx(Bucket(rate).charge(sum(amounts), 5.0).reset(5.0))


def test_a_refusal_takes_nothing() -> None:
    meter = Meter(requests=Bucket(2)).take(REQUESTS, 1, 0).take(REQUESTS, 1, 0)
    refused(meter, REQUESTS, 1, 0)
    refused(meter, REQUESTS, 1, 29.9)

    assert meter.take(REQUESTS, 1, 30).headers(30)["x-ratelimit-remaining-requests"] == "0"


def test_a_refusal_says_how_long_to_wait() -> None:
    meter = Meter(requests=Bucket(3), tokens=Bucket(1000)).take(TOKENS, 900, 0)
    error = refused(meter, TOKENS, 200, 0.5)

    assert error.message == (
        "Rate limit reached on tokens per min (TPM): Limit 1000, Used 892, Requested 200. Please try again in 5.5s."
    )
    assert error.headers == {
        "retry-after": "6",
        "retry-after-ms": "5500",
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "0ms",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "108",
        "x-ratelimit-reset-tokens": "53.5s",
    }


def test_what_can_never_pass_is_not_to_be_repeated() -> None:
    error = refused(Meter(tokens=Bucket(1000)), TOKENS, 1001, 0)

    assert "Request too large" in error.message
    assert error.headers["x-should-retry"] == "false"
    assert "retry-after" not in error.headers


def test_a_debt_is_paid_before_anything_is_given() -> None:
    meter = Meter(tokens=Bucket(600)).charge(TOKENS, 1200, 0)

    assert meter.headers(0)["x-ratelimit-remaining-tokens"] == "0"
    refused(meter, TOKENS, 1, 60)
    assert meter.take(TOKENS, 1, 60.2) != meter


def test_without_limits_there_is_nothing_to_take_or_to_tell() -> None:
    meter = Meter()

    assert meter.take(TOKENS, 10**9, 0).charge(REQUESTS, 1, 0) == meter
    assert meter.headers(0) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0201, "21ms"), (1, "1s"), (6.25, "6.25s"), (59.9999, "1m0s"), (90, "1m30s"), (360, "6m0s")],
)
def test_durations_are_written_as_the_api_writes_them(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
