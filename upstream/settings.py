"""Settings of the shipped server; plain types, so that options and environment variables map onto them one to one."""

from __future__ import annotations

from dataclasses import dataclass, field

from wire.extensions import APPEND, CONTEXT, ENVELOPE, ENVELOPE_BYTES, ENVELOPE_ENTRIES
from wire.sse import DONE

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Everything that one server is told at its start."""

    host: str = "127.0.0.1"
    port: int = 8788
    """0 takes any free port."""
    admin_host: str = ""
    admin_port: int = 0
    """Where health and metrics are told; without a host, nowhere. Port 0 takes any free one."""
    engine: str = "sim"
    """`sim`, or a kind of engine and its base URL: `chat:http://127.0.0.1:8000/v1`."""
    engine_model: str = ""
    """Model that the engine is asked for; empty passes the request's on."""
    engine_key: str = field(default="", repr=False)
    """What the engine is shown as bearer; empty shows nothing."""
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
    features: tuple[str, ...] = (ENVELOPE, APPEND, CONTEXT)
    """Extensions offered in the 101 answer (wire.extensions); empty is a plain server."""
    models: tuple[str, ...] = ("gpt-5.2", "gpt-5.5", "sim")
    """What `GET /v1/models` lists; the engine decides which names it takes."""
    secret: str = ""
    """What reasoning items are sealed with; empty makes a key that lives as long as the process."""
    keys: str = ""
    """File of API keys (upstream.access.keys); empty takes any."""
    vocabulary: str = "o200k_harmony"
    """What text becomes tokens by (upstream.tokens): a name, or the path of a `tokenizer.json`."""
    template: str = "harmony"
    """How a conversation is rendered (upstream.templates)."""
    caching: str = "websocket"
    """What is kept between requests (upstream.kept.content); without lanes there are no WebSockets."""
    screen: str = "off"
    """Whether conversations are screened before they are answered (upstream.stages.screens): `on` or `off`."""
    max_cache: int = 1024 * MIB
    max_key_cache: int = 512 * MIB
    max_connection_cache: int = 256 * MIB
    max_lane_cache: int = 128 * MIB
    """Bytes of conversations kept between turns: of the process, a key, a connection, a lane (upstream.kept.budget)."""
    store: str = "memory"
    """Where stored responses are: `memory`, or there and in the Redis of this URL, which needs a secret."""
    store_ttl: float = 30 * 24 * 3600.0
    """Seconds that they stay in Redis."""
    store_bytes: int = 256 * MIB
    """Memory for stored responses; the least recently used leave first."""
    envelope_entries: int = ENVELOPE_ENTRIES
    envelope_bytes: int = ENVELOPE_BYTES
    """Members that one connection remembers under their digest."""
    queue_frames: int = 64
    queue_bytes: int = 64 * MIB
    """Frames, and bytes of them, that one connection may have waiting; one more is refused with 429."""
    dialect: str = "openai"
    """Whose rules hold where they differ: `openai`, or `open-responses` (no lanes, streams end with `[DONE]`, every
    error frame has a code)."""
    lanes: str = "on"
    """Whether a WebSocket may carry several chains at once (`stream_id`): `on` or `off`."""
    compression: str = "on"
    """Whether permessage-deflate is accepted where a client offers it: `on` or `off`."""
    context_window: int = 0
    """Tokens that a model is shown at most; 0 is without end. Beyond it `truncation` decides."""
    parallel_calls: str = "off"
    """sim: `on` for two calls in one answer, where there are tools for it."""
    background_jobs: int = 16
    background_waiting: int = 256
    """Responses in the background that run, and that wait, at once; one more is refused with 429."""
    background_bytes: int = 64 * MIB
    """Events of responses in the background that are kept to be streamed again; the oldest leave first."""
    ledger: str = ""
    """File that a line of each turn's usage is appended to (upstream.settling.ledger); empty for none."""
    ledger_waiting: int = 16384
    """Lines that may wait to be written, running turns included; further turns wait."""
    drain_seconds: float = 10.0
    """How long running turns may go on when the server is closed."""

    @property
    def multiplexes(self) -> bool:
        """Whether there are lanes."""
        return self.lanes == "on" and self.dialect == "openai"

    @property
    def has_websockets(self) -> bool:
        """Whether `GET /responses` can be upgraded."""
        return self.caching == "websocket"

    @property
    def compresses(self) -> bool:
        """Whether a client's offer of compression is taken."""
        return self.compression == "on"

    @property
    def stream_end(self) -> bytes:
        """What ends a stream of events over HTTP."""
        return DONE if self.dialect == "open-responses" else b""

    @property
    def codes_every_error(self) -> bool:
        """Whether an error frame has a code even where the API has none."""
        return self.dialect == "open-responses"
