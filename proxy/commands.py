"""The options of the commands that serve: one table each (`proxy.options` reads them)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.options import Option
from proxy.readers import (
    address,
    base_url,
    count,
    duration,
    engine,
    file,
    limit,
    maybe_address,
    names,
    number,
    one_of,
    pace,
    rates,
    secret,
    size,
    some_of,
    state,
    vocabulary,
    word,
)
from wire.extensions import APPEND, CONTEXT, ENVELOPE

if TYPE_CHECKING:
    from collections.abc import Mapping

ENGINE_KEY = "DELTAWIRE_ENGINE_KEY"
"""Environment variable with the engine's key; no option, since command lines are for all to see."""
LOG_LEVEL = Option("log-level", "info", one_of("debug", "info", "warning", "error"), "what is logged to stderr")

_MAX_BODY = Option("max-body", "128MiB", size, "largest request body, in bytes after decoding; larger is 413")
_DRAIN = Option("drain", "30s", duration, "how long running turns may take to end at shutdown, in seconds")

PROXY: tuple[Option, ...] = (
    Option("listen", "127.0.0.1:8787", address, "client side"),
    Option("admin", "127.0.0.1:8790", address, "health, metrics and live page"),
    Option("upstream", "https://api.openai.com/v1", base_url, "base URL of the upstream, as SDKs take it", shown=False),
    Option(
        "upstream-dialect",
        "auto",
        one_of("auto", "openai", "azure", "xai", "codex", "open-responses"),
        "what the upstream's WebSocket mode allows (docs/upstreams.md); auto: by its address, ours by its handshake",
    ),
    Option(
        "state", "memory", state, "memory, or redis://, rediss://, redis+sentinel://, redis+cluster://", shown=False
    ),
    Option("state-ttl", "24h", duration, "how long heads stay in Redis after their turn, in seconds"),
    Option("secret", "", secret, "key of all digests; needed with Redis, random otherwise", shown=False),
    Option("transport", "auto", one_of("auto", "full", "http"), "auto, full (links, no deltas) or http (pass-through)"),
    Option(
        "echo", "exact", one_of("exact", "lenient"), "lenient: an echo without reasoning or in another order counts"
    ),
    Option(
        "one-shot",
        "link",
        one_of("link", "http", "auto"),
        "http: a first turn without tools goes by HTTP if no link is warm; auto: where conversations never go on",
    ),
    _MAX_BODY,
    Option("max-links", "256", count, "upstream WebSockets at once; beyond it turns go by HTTP"),
    Option(
        "first-event-timeout",
        "10m",
        limit,
        "how long a turn over a link waits for its first event, in seconds; 0: for ever",
    ),
    Option("event-timeout", "10m", limit, "how long it waits for each further event, in seconds; 0: for ever"),
    Option(
        "replay-ambiguous",
        "off",
        one_of("off", "on"),
        "on: a turn whose link died before any event is sent once more, though it may have run",
    ),
    Option("link-max-age", "55m", duration, "age at which a link is retired between turns, in seconds"),
    Option(
        "append",
        "auto",
        one_of("auto", "off"),
        "auto: a server that offers it is sent only what differs from the turn before (docs/wire.md)",
    ),
    Option("link-compression", "off", one_of("off", "on"), "on: offer permessage-deflate; fewer bytes for more CPU"),
    Option("ping-interval", "25s", duration, "silence on a link after which it is pinged, in seconds"),
    Option("max-state", "64MiB", size, "memory for heads, in bytes; the least recently used go first"),
    Option("forward-header", "", names, "headers, comma-separated, that go onto handshakes and tell tenants apart"),
    _DRAIN,
)

UPSTREAM: tuple[Option, ...] = (
    Option("listen", "127.0.0.1:8788", address, "where the server listens"),
    Option("admin", "", maybe_address, "health and metrics of the server; nowhere by default"),
    Option(
        "engine",
        "sim",
        engine,
        "sim, a scripted agent; local, a small model; chat:URL, chat completions; llamacpp:URL, vllm:URL or sglang:URL",
        shown=False,
    ),
    Option("engine-model", "", word, "model name that the engine is asked for, instead of the request's"),
    Option("tool-turns", "5", number, "sim: tool calls after each user message before it answers"),
    Option("tokens-per-second", "0", pace, "sim: pace of the answer in tokens per second; 0 is as fast as possible"),
    _MAX_BODY,
    Option("parallel-calls", "off", one_of("off", "on"), "sim: on for two calls in one answer, given tools"),
    Option("context-window", "0", number, "tokens that a model is shown at most; 0 is without end"),
    Option("background-jobs", "16", count, "responses in the background that run at once; others wait"),
    Option("connection-max-age", "60m", duration, "age at which a WebSocket takes no further turn, in seconds"),
    Option(
        "dialect", "openai", one_of("openai", "open-responses"), "open-responses: no lanes, and streams end with [DONE]"
    ),
    Option("lanes", "on", one_of("on", "off"), "on: a WebSocket may carry several chains at once (stream_id)"),
    Option("compression", "on", one_of("on", "off"), "on: permessage-deflate where a client offers it"),
    Option(
        "features",
        f"{ENVELOPE},{APPEND},{CONTEXT}",
        some_of(ENVELOPE, APPEND, CONTEXT),
        "extensions offered to sidecars (docs/wire.md), comma-separated, or none",
    ),
    Option(
        "caching",
        "websocket",
        one_of("none", "http", "websocket"),
        "what is kept between requests: nothing; content in memory; that, and WebSockets with their lanes",
    ),
    Option("template", "harmony", one_of("harmony", "chatml"), "how a model is shown a conversation"),
    Option(
        "vocabulary",
        "o200k_harmony",
        vocabulary,
        "what tokens are counted and rendered by: a name, or the path of a tokenizer.json",
    ),
    Option("screen", "off", one_of("off", "on"), "on: refuse conversations that a screen flags; ours are examples"),
    Option("max-cache", "1GiB", size, "conversations kept between turns, in bytes; the largest leave first"),
    Option("max-key-cache", "512MiB", size, "the same for each API key, in bytes"),
    Option("max-connection-cache", "256MiB", size, "the same for each WebSocket, in bytes"),
    Option("max-lane-cache", "128MiB", size, "the same for each lane and each stored response, in bytes"),
    Option("keys", "", file, "file of API keys, as deltawire key makes them; without it any bearer is taken"),
    Option(
        "store", "memory", state, "memory, or also a Redis: redis://, redis+sentinel://, redis+cluster://", shown=False
    ),
    Option("store-ttl", "720h", duration, "how long stored responses stay in Redis, in seconds"),
    Option("ledger", "", file, "file that a line of each turn's usage is appended to (JSON Lines)"),
    Option("secret", "", secret, "key that reasoning items are sealed with; random by default", shown=False),
    _DRAIN,
)

_OF_BOTH = frozenset({"listen", "admin"})
"""Options that mean something else for each side: `up` takes the server's with the prefix `upstream-`."""
_SHARED = frozenset({"max-body", "drain", "secret"})
NOT_OF_UP = frozenset({"listen", "upstream", "upstream-dialect"})
"""Options of the sidecar that `up` has no use for, or under another name."""
UP: tuple[Option, ...] = (
    Option("proxy-listen", "127.0.0.1:8787", address, "client side of the sidecar", also="DELTAWIRE_LISTEN"),
    Option("upstream-listen", "127.0.0.1:8788", address, "where the server listens"),
    Option("upstream-admin", "", maybe_address, "health and metrics of the server; nowhere by default"),
    *(option for option in PROXY if option.name not in NOT_OF_UP),
    *(option for option in UPSTREAM if option.name not in _OF_BOTH | _SHARED),
)


def of_server(found: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `up` as `upstream` would have found them."""
    return {one.field: found[f"upstream_{one.name}" if one.name in _OF_BOTH else one.field] for one in UPSTREAM}


CHAOS: tuple[Option, ...] = (
    Option("listen", "127.0.0.1:8788", address, "where it serves"),
    Option(
        "fault",
        "all=0.1",
        rates,
        "part of the turns that show a fault, or any of all; several by commas or again",
        many=True,
    ),
    Option("seed", "0", number, "the same seed chooses the same faults"),
    Option("pause", "20s", duration, "length of the pauses of late and pausing, in seconds"),
)
