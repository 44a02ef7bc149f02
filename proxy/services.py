"""What turns share, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
