"""Settings of the sidecar, as values; where they come from is the business of `proxy.options`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Mode = Literal["auto", "full", "http"]
"""What turns may be at most: deltas, whole histories over links, plain HTTP."""
OneShot = Literal["link", "http", "auto"]
"""How a first turn without tools goes when no link is warm; `auto`: by HTTP once its tenant never goes on."""
UpstreamDialect = Literal["auto", "openai", "azure", "xai", "codex", "open-responses"]
KIB = 1024
MIB = 1024 * KIB
MINUTE = 60.0


class Address(NamedTuple):
    """A host and a port to listen on; port 0 takes any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


CLIENT_SIDE = Address("127.0.0.1", 8787)
ADMIN_SIDE = Address("127.0.0.1", 8790)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """One sidecar. Sizes are bytes, durations seconds."""

    listen: Address = CLIENT_SIDE
    admin: Address = ADMIN_SIDE
    upstream: str = "https://api.openai.com/v1"
    upstream_dialect: UpstreamDialect = "auto"
    state: str = "memory"
    state_ttl: float = 24 * 60 * MINUTE
    secret: bytes | None = None
    transport: Mode = "auto"
    echo: Literal["exact", "lenient"] = "exact"
    one_shot: OneShot = "link"
    max_body: int = 128 * MIB
    max_links: int = 256
    link_max_age: float = 55 * MINUTE
    append: Literal["auto", "off"] = "auto"
    link_compression: Literal["off", "on"] = "off"
    ping_interval: float = 25.0
    max_state: int = 64 * MIB
    forward_headers: tuple[str, ...] = ()
    drain: float = 30.0
    dial_timeout: float = 10.0
    hold: float = 2.0
    silence: float = 15.0
    first_event_timeout: float = 10 * MINUTE
    event_timeout: float = 10 * MINUTE
    replay_ambiguous: Literal["off", "on"] = "off"

    def __repr__(self) -> str:
        # Neither the secret nor a state URL, which may carry a password, belongs in a log.
        return f"ProxySettings(listen={self.listen}, upstream={self.upstream!r}, transport={self.transport!r})"
