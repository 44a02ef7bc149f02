"""A linear text model over hashed character n-grams: small, quick, and the same everywhere.

A text is looked at in windows, so that one bad sentence in a long text is not lost among good ones. Of a long text only
the beginning and the end are looked at.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS: Final = 4096
_SIZES: Final = (3, 4, 5)
WINDOW: Final = 240
_STEP: Final = 120
_ENDS: Final = 12_000
_LEVELS: Final = 127
WEIGHTS: Final = Path(__file__).with_name("linear.json")


class Model(msgspec.Struct, frozen=True):
    """Weights in steps of `scale`, one signed byte, in hexadecimal, for each bucket."""

    name: str
    scale: float
    bias: float
    threshold: float
    weights: str

    def score(self, text: str) -> float:
        """Of the worst window: above 0 is more likely bad than good."""
        weights = memoryview(bytes.fromhex(self.weights)).cast("b")
        best = -math.inf
        for window in windows(text):
            found = features(window)
            best = max(best, self.bias + self.scale * sum(weights[one] for one in found) / math.sqrt(len(found) or 1))
        return best

    def flags(self, text: str) -> bool:
        """Whether the worst window lies above the threshold."""
        return self.score(text) > self.threshold


def made(name: str, weights: Sequence[float], bias: float, threshold: float) -> Model:
    """A model of these weights, rounded to what it keeps."""
    scale = max(map(abs, weights)) / _LEVELS or 1.0
    rounded = bytes(round(weight / scale) & 0xFF for weight in weights)
    return Model(name, scale, bias, threshold, rounded.hex())


@cache
def shipped() -> Model:
    """The model beside this file, made by `python -m upstream.stages.linear_training`."""
    return msgspec.json.decode(WEIGHTS.read_bytes(), type=Model)


def features(text: str) -> frozenset[int]:
    """Buckets of all n-grams of a text; case and white space do not count."""
    plain = f" {' '.join(text.lower().split())} ".encode(errors="surrogatepass")
    return frozenset(
        zlib.crc32(plain[at : at + size]) % BUCKETS for size in _SIZES for at in range(len(plain) - size + 1)
    )


def windows(text: str) -> list[str]:
    """Pieces of a text that overlap by half."""
    if len(text) > 2 * _ENDS:
        return windows(text[:_ENDS]) + windows(text[-_ENDS:])
    return [text[at : at + WINDOW] for at in range(0, max(1, len(text) - _STEP), _STEP)]
