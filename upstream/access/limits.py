"""Rate limits: token buckets of requests and of tokens per minute, and how the API tells of them.

A bucket holds a minute's worth and is known by one number: when it will be full again. Taking moves that time on;
a bucket whose time lies more than a minute ahead is in debt, and gives nothing. Over any t seconds it never gives
more than `per_minute * (1 + t / 60)`, except by `charge`, which later takes wait for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from wire.errors import ApiError

_MINUTE: Final = 60.0
_STATUS = 429
REQUESTS, TOKENS = "requests", "tokens"
_WORDS: Final = {REQUESTS: "requests per min (RPM)", TOKENS: "tokens per min (TPM)"}


@dataclass(frozen=True, slots=True)
class Bucket:
    """One limit. Times are seconds of any clock that never goes back."""

    per_minute: int
    full_at: float = -math.inf

    def charge(self, amount: int, now: float) -> Bucket:
        """The bucket after `amount` was used, whether it was there or not."""
        return replace(self, full_at=max(self.full_at, now) + amount * _MINUTE / self.per_minute)

    def wait(self, amount: int, now: float) -> float:
        """Seconds until `amount` can be taken: 0 for at once, infinity when it is more than the bucket ever holds."""
        if amount > self.per_minute:
            return math.inf
        return max(0.0, self.charge(amount, now).full_at - now - _MINUTE)

    def remaining(self, now: float) -> int:
        """What is in it, rounded down; 0 in debt."""
        return max(0, math.floor(self.per_minute * (1 - self.reset(now) / _MINUTE)))

    def reset(self, now: float) -> float:
        """Seconds until it is full."""
        return max(0.0, self.full_at - now)


@dataclass(frozen=True, slots=True)
class Meter:
    """Both limits of one key; None is no limit."""

    requests: Bucket | None = None
    tokens: Bucket | None = None

    def take(self, kind: str, amount: int, now: float) -> Meter:
        """The meter after `amount` was taken. Raises `ApiError` 429 when it is not there; then nothing is taken."""
        bucket: Bucket | None = getattr(self, kind)
        if bucket is not None and bucket.wait(amount, now) > 0:
            raise _reached(kind, bucket, amount, now, self.headers(now))
        return self.charge(kind, amount, now)

    def charge(self, kind: str, amount: int, now: float) -> Meter:
        """The meter after `amount` was used, whether it was there or not."""
        if kind == REQUESTS:
            return replace(self, requests=self.requests and self.requests.charge(amount, now))
        return replace(self, tokens=self.tokens and self.tokens.charge(amount, now))

    def headers(self, now: float) -> dict[str, str]:
        """The API's headers of the limits that there are."""
        found: dict[str, str] = {}
        for kind, bucket in ((REQUESTS, self.requests), (TOKENS, self.tokens)):
            if bucket is not None:
                found[f"x-ratelimit-limit-{kind}"] = str(bucket.per_minute)
                found[f"x-ratelimit-remaining-{kind}"] = str(bucket.remaining(now))
                found[f"x-ratelimit-reset-{kind}"] = spoken(bucket.reset(now))
        return found


def spoken(seconds: float) -> str:
    """A duration as the API writes it: `20ms`, `6s`, `1m30s`."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{minutes}m{text}" if minutes else text


def _reached(kind: str, bucket: Bucket, amount: int, now: float, headers: dict[str, str]) -> ApiError:
    wait = bucket.wait(amount, now)
    if math.isinf(wait):
        # The same request can never pass, so clients are told not to repeat it.
        message = f"Request too large on {_WORDS[kind]}: Limit {bucket.per_minute}, Requested {amount}."
        return _limited(message, kind, headers | {"x-should-retry": "false"})
    used = bucket.per_minute - bucket.remaining(now)
    message = (
        f"Rate limit reached on {_WORDS[kind]}: Limit {bucket.per_minute}, Used {used}, Requested {amount}. "
        f"Please try again in {spoken(wait)}."
    )
    after = {"retry-after": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1000))}
    return _limited(message, kind, headers | after)


def _limited(message: str, kind: str, headers: dict[str, str]) -> ApiError:
    return ApiError(_STATUS, message, type=kind, code="rate_limit_exceeded", headers=headers)
