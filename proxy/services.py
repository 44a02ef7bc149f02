"""What turns share, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.habits import Habits
from proxy.headers import tenant_parts

if TYPE_CHECKING:
    from aiohttp import web

    from proxy.links import Links
    from proxy.memory import Memory
    from proxy.passthrough import PassThrough
    from proxy.settings import ProxySettings
    from telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one sidecar that a turn works with."""

    settings: ProxySettings
    links: Links
    memory: Memory
    http: PassThrough
    metrics: Metrics
    habits: Habits = field(default_factory=Habits)

    def tenant(self, request: web.Request) -> bytes:
        """On whose behalf a request runs: the digest that everything known of links and conversations is kept under."""
        # A query belongs to the handshake, as `api-version` does, and so to what links and states are kept apart by.
        upstream = f"{self.settings.upstream}?{request.rel_url.raw_query_string}"
        return self.memory.tenant(tenant_parts(upstream, request.headers, self.settings.forward_headers))
