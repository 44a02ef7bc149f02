"""Faults of connections by name: how a handshake is answered, or what an accepted connection never does."""

from __future__ import annotations

from typing import NamedTuple

from upstream.scripted.faults import RefuseUpgrade
from upstream.scripted.script import Accept


class Handshake(NamedTuple):
    """A fault of a connection: how it is accepted, or refused."""

    wire: str
    stands_for: str
    seen: str
    answer: Accept | RefuseUpgrade


HANDSHAKES: dict[str, Handshake] = {
    "upgrade-404": Handshake(
        "the upgrade is answered by 404",
        "services without WebSocket mode, some of which say 400, 405, 426 or 501",
        "nothing: turns go by HTTP (`no_websocket`), and it is tried again after 10 minutes",
        RefuseUpgrade(404),
    ),
    "upgrade-429": Handshake(
        "the upgrade is answered by 429 with `retry-after`",
        "services that limit how fast connections are opened",
        "nothing: turns that have no link go by HTTP for so long (`dial_failed`)",
        RefuseUpgrade(429, headers={"retry-after": "5"}),
    ),
    "upgrade-503": Handshake(
        "the upgrade is answered by 503",
        "balancers without a server behind them",
        "nothing, as above, with waits that grow",
        RefuseUpgrade(503),
    ),
    "unresponsive": Handshake(
        "pings are not answered",
        "half-open connections, of which the other end is gone without a word",
        "nothing between turns: the link ends (`ping_timeout`). A running turn fails as at `reset-before`",
        Accept(answer_pings=False),
    ),
}
