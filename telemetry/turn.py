"""What is remembered of one turn: figures and codes, never content."""

from dataclasses import dataclass, fields
from typing import Final

from wire.errors import SERVER_ERROR

BROKEN_OFF: Final = "broken_off"
"""Stands for the code of an error where a plain HTTP answer ended before its end."""
MAX_TEXT: Final = 128
"""Characters kept of any text field: some come from outside (model, request id, the upstream's codes)."""


@dataclass(slots=True)
class TurnRecord:
    """One turn, filled in by the proxy while it happens; log line, metrics and span are made of it at the end.

    Durations are seconds, sizes are bytes of the request direction. `None` means: not known, or did not happen.
    """

    request_id: str
    transport: str = ""
    """The transport that finally answered, or the one last tried; empty when none was."""
    reason: str = ""
    """The first reason why the turn was not a delta (`reasons.REASONS`); empty on a delta."""
    error: str = ""
    """Code of an error made by the sidecar itself (`reasons.SIDECAR_ERRORS`)."""
    upstream_error: str = ""
    """Code of an error that the upstream reported, at any point of the turn; `BROKEN_OFF` when it just broke off."""
    status: int = 0
    """HTTP status shown to the client; 0 when it left before there was one."""
    stream: bool = False
    model: str = ""
    tenant: str = ""
    """The first characters of the tenant's keyed digest."""
    link: int | None = None
    response_id: str = ""
    items_total: int = 0
    items_covered: int = 0
    items_sent: int = 0
    client_bytes: int = 0
    upstream_bytes: int = 0
    overhead_s: float | None = None
    """From the whole body to the frame written: reading, matching, planning, and the wait for a link, if any."""
    first_event_s: float | None = None
    """From the frame written to the first event of the upstream."""
    duration_s: float = 0.0
    proved: bool = False
    """Whether a digest of the whole context went with a delta, for the upstream to compare (docs/wire.md)."""
    events: int = 0
    retries: tuple[str, ...] = ()
    """Causes (`reasons.RETRY_CAUSES`), in order."""
    usage_input: int | None = None
    usage_output: int | None = None
    usage_cached: int | None = None
    client_gone: bool = False
    envelope_changed: str = ""
    """Name of the first envelope field that blocked a delta."""

    @property
    def failed(self) -> bool:
        """True when the sidecar or the upstream could not serve the turn; a client's own mistake is no failure."""
        return bool(self.error) or self.status >= SERVER_ERROR

    def as_dict(self) -> dict[str, object]:
        """All fields in order, ready for JSON: text cut to `MAX_TEXT`, durations to microseconds."""
        return {name: _plain(getattr(self, name)) for name in _NAMES}


def cut(text: str) -> str:
    """The text, no longer than `MAX_TEXT` characters."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _plain(value: object) -> object:
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


_NAMES: Final = tuple(field.name for field in fields(TurnRecord))
