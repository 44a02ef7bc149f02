"""Settings of the shipped server; plain types, so that options and environment variables map onto them one to one."""

from __future__ import annotations

from dataclasses import dataclass

from wire.extensions import ENVELOPE, ENVELOPE_BYTES, ENVELOPE_ENTRIES

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Everything that one server is told at its start."""

    host: str = "127.0.0.1"
    port: int = 8788
    """0 takes any free port."""
    engine: str = "sim"
    tool_turns: int = 5
    """sim: tool calls after each user message before it answers."""
    tokens_per_second: float = 0.0
    """sim: pace of the answer; 0 is as fast as possible."""
    max_body: int = 128 * MIB
    """Bytes of an HTTP request body after decompression; larger is 413."""
    max_frame: int = 16 * MIB
    """Bytes of a WebSocket message; a larger one ends the connection with 1009."""
    connection_max_age: float = 3600.0
    """Seconds after which a WebSocket takes no further turn and is closed."""
    heartbeat: float = 25.0
    """Seconds between the server's WebSocket pings."""
    features: tuple[str, ...] = (ENVELOPE,)
    """Extensions offered in the 101 answer (wire.extensions); empty is a plain server."""
    models: tuple[str, ...] = ("gpt-5.2", "gpt-5.5", "sim")
    """What `GET /v1/models` lists; the engine decides which names it takes."""
    secret: str = ""
    """What reasoning items are sealed with; empty makes a key that lives as long as the process."""
    store_bytes: int = 256 * MIB
    """Memory for stored responses; the least recently used leave first."""
    envelope_entries: int = ENVELOPE_ENTRIES
    envelope_bytes: int = ENVELOPE_BYTES
    """Members that one connection remembers under their digest."""
    queue_frames: int = 64
    """Frames that one connection may have waiting; one more is refused with 429."""
    drain_seconds: float = 10.0
    """How long running turns may go on when the server is closed."""
