"""How a turn ended, as all who keep books are told: the ledger and the metrics. No content."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upstream.engine import Usage


@dataclass(frozen=True, slots=True)
class Outcome:
    """One turn. Times are in seconds since it was received, or None for what did not come to pass."""

    response_id: str
    owner: bytes = field(repr=False)
    transport: str
    """`http`, `websocket` or `background`."""
    status: str
    """That of the response; or `refused` by the engine, `abandoned` by the client."""
    model: str
    usage: Usage
    ended_at: int
    """Seconds since 1970."""
    seconds: float
    start_s: float | None = None
    """When the engine was asked."""
    first_token_s: float | None = None
    """When its first token came."""

    def tokens(self) -> dict[str, int]:
        """Tokens by kind; cached ones are input as well, reasoning is output as well."""
        used = self.usage
        return {
            "input": used.input_tokens,
            "cached": used.cached_tokens,
            "output": used.output_tokens,
            "reasoning": used.reasoning_tokens,
        }
