"""How upstreams differ, as data."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from proxy.settings import MIB, MINUTE
from state.envelope import POLICY, Policy


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an upstream's WebSocket mode allows.

    `max_age`: seconds a link may live; `max_frame`: bytes of a frame it takes; `honoured`: context fields whose new
    value it applies on a continued turn, so that a change does not block a delta.
    """

    name: str
    max_age: float = 55 * MINUTE
    max_frame: int = 15 * MIB
    honoured: frozenset[str] = frozenset()


OPENAI = Dialect("openai")
"""60 minutes by the guide; frames of 16 MiB are refused with 1009 where it was measured, so they are kept below."""
XAI = Dialect("xai", max_age=20 * MINUTE)
"""docs.x.ai: 25 minutes."""
DELTAWIRE = Dialect(
    "deltawire",
    honoured=frozenset(name for name, policy in POLICY.items() if policy is Policy.CONTEXT) - {"store", "model"},
)
"""The shipped server renders each turn from the items and the envelope of that turn."""

_BY_HOST = {"api.x.ai": XAI}


def of(upstream: str) -> Dialect:
    """The dialect that an upstream's host name stands for, before anything is learned from its handshake."""
    return _BY_HOST.get(urlsplit(upstream).hostname or "", OPENAI)
