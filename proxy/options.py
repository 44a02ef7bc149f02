"""Options of the commands: one table each, read from the command line, then from the environment.

`--max-body` is also `DELTAWIRE_MAX_BODY`; the command line wins. Sizes are bytes or carry KiB, MiB, GiB; durations are
seconds or carry ms, s, m, h.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from proxy.headers import HOP_BY_HOP, OWN_PREFIX
from proxy.settings import Address
from state.redis_url import parse_redis_url
from wire.extensions import APPEND, CONTEXT, ENVELOPE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SIZE = re.compile(r"(\d+)\s*(|B|KiB|MiB|GiB)", re.IGNORECASE)
_SIZES = {"": 1, "b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(|ms|s|m|h)")
_DURATIONS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_PORT = 65535
_MAX_SIZE = 2**50
_MAX_DURATION = 10 * 365 * 24 * 3600.0
_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+)):([0-9]{1,5})")
_MAX_DIGITS = 15
_DIGITS = re.compile(r"[0-9]{1,15}")
_RATE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MIN_SECRET = 16
ENGINES = ("sim", "local")
VOCABULARIES = ("o200k_harmony", "qwen3", "llama3", "cl100k_base")
REMOTE_ENGINES = ("chat", "llamacpp", "vllm", "sglang")
ENGINE_KEY = "DELTAWIRE_ENGINE_KEY"
"""Environment variable with the engine's key; no option, since command lines are for all to see."""
_URL = re.compile(r"[!-~]+")
_HOST = re.compile(r"[0-9A-Za-z._:%-]+")
_OF_A_MESSAGE = ("content-", "sec-websocket-", OWN_PREFIX)


class BadSettingError(Exception):
    """A setting that cannot be used; the message is one line that names the option and what it takes."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name without dashes, its default as a user would write it, how its text is read, what it is.

    The value of one that is not `shown` is never quoted. `also` is a second environment variable, behind its own.
    One with `many` may stand several times; its texts are then one list, with commas.
    """

    name: str
    default: str
    read: Callable[[str], Any]
    help: str
    shown: bool = True
    also: str = ""
    many: bool = False

    @property
    def environment(self) -> str:
        """Its environment variable."""
        return "DELTAWIRE_" + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        """Its name in settings."""
        return self.name.replace("-", "_")


def address(text: str) -> Address:
    """`HOST:PORT`; an IPv6 host stands in brackets."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > _MAX_PORT:
        raise ValueError("HOST:PORT is needed")
    return Address(match[1] or match[2], int(match[3]))


def maybe_address(text: str) -> Address | None:
    """`HOST:PORT`, or empty for nowhere."""
    return address(text) if text else None


def size(text: str) -> int:
    """A number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    value = int(match[1]) * _SIZES[match[2].lower()] if match is not None and len(match[1]) <= _MAX_DIGITS else 0
    if not 0 < value <= _MAX_SIZE:
        raise ValueError("a size such as 128MiB is needed")
    return value


def duration(text: str) -> float:
    """A number of seconds."""
    match = _DURATION.fullmatch(text.strip())
    value = float(match[1]) * _DURATIONS[match[2]] if match is not None else 0.0
    if not 0 < value <= _MAX_DURATION:
        raise ValueError("a duration such as 55m or 30s is needed")
    return value


def limit(text: str) -> float:
    """A number of seconds, 0 for none."""
    return 0.0 if text.strip() == "0" else duration(text)


def count(text: str) -> int:
    """A positive number."""
    value = number(text) if _DIGITS.fullmatch(text) else 0
    if value == 0:
        raise ValueError("a positive number is needed")
    return value


def number(text: str) -> int:
    """A number, zero included."""
    if not _DIGITS.fullmatch(text):
        raise ValueError("a number is needed")
    return int(text)


def pace(text: str) -> float:
    """A rate; zero means as fast as possible."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("a number of tokens is needed")
    return value


def one_of(*values: str) -> Callable[[str], str]:
    """One of these words."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"one of {', '.join(values)} is needed")
        return text

    return read


def _is_host(text: str) -> bool:
    """Whether a host can be looked up at all: otherwise each and every request would fail, the start would not."""
    try:
        return bool(_HOST.fullmatch(text)) and text.encode().decode("idna").encode("idna") != b""
    except UnicodeError:  # a label that is empty, too long, or no IDNA
        return False


def base_url(text: str) -> str:
    """A base URL as SDKs take it."""
    parts = urlsplit(text)
    shaped = _URL.fullmatch(text) and parts.scheme in {"http", "https"} and _is_host(parts.hostname or "")
    if not shaped or parts.query or parts.fragment:
        raise ValueError("a base URL such as https://api.openai.com/v1 is needed")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL without credentials is needed")
    _ = parts.port  # raises ValueError for a bad one
    return parts.geturl().rstrip("/")


def state(text: str) -> str:
    """`memory`, or the URL of a Redis."""
    if text != "memory":
        parse_redis_url(text)
    return text


def secret(text: str) -> bytes | None:
    """Any text that is long enough; empty for none."""
    if text and len(text) < _MIN_SECRET:
        raise ValueError(f"at least {_MIN_SECRET} characters are needed")
    try:
        return text.encode() or None
    except UnicodeEncodeError:  # its text quotes a character
        raise ValueError("text in UTF-8 is needed") from None


def word(text: str) -> str:
    """A name of printable characters; empty for none."""
    if not text.isprintable():
        raise ValueError("a name is needed")
    return text


def file(text: str) -> str:
    """Path of a file, which is read when the command starts; empty for none."""
    if not text.isprintable():
        raise ValueError("the path of a file is needed")
    return text


def engine(text: str) -> str:
    """`sim`, or the kind of an engine and its URL."""
    kind, _, url = text.partition(":")
    if text in ENGINES:
        return text
    if kind not in REMOTE_ENGINES:
        known = ", ".join([*ENGINES, *(f"{one}:URL" for one in REMOTE_ENGINES)])
        raise ValueError(f"one of {known} is needed")
    return f"{kind}:{base_url(url)}"


def vocabulary(text: str) -> str:
    """The name of a vocabulary, or the path of a file with one."""
    if text not in VOCABULARIES and not (text.endswith(".json") and text.isprintable()):
        raise ValueError(f"one of {', '.join(VOCABULARIES)}, or the path of a tokenizer.json is needed")
    return text


def names(text: str) -> tuple[str, ...]:
    """Comma-separated header names."""
    found = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if not all(_TOKEN.fullmatch(name) for name in found):
        raise ValueError("header names, separated by commas, are needed")
    if any(name in {*HOP_BY_HOP, "host", "expect"} or name.startswith(_OF_A_MESSAGE) for name in found):
        raise ValueError("headers that are not about one message or one connection are needed")
    return found


def some_of(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Some of these words, comma-separated; `none` for none, since an empty environment variable counts as unset."""

    def read(text: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in text.split(",") if part.strip())
        if found == ("none",):
            return ()
        if not set(found) <= set(known):
            raise ValueError(f"some of {', '.join(known)}, or none, is needed")
        return found

    return read


def rates(text: str) -> dict[str, float]:
    """Names with a part of everything each, from 0 to 1."""
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, rate = part.partition("=")
        if not _RATE.fullmatch(rate) or float(rate) > 1:
            raise ValueError("NAME=RATE is needed, with a rate from 0 to 1")
        found[name.strip()] = float(rate)
    return found


_METAVARS: dict[Callable[[str], Any], str] = {
    address: "HOST:PORT",
    maybe_address: "HOST:PORT",
    size: "SIZE",
    duration: "TIME",
    limit: "TIME",
    count: "NUMBER",
    number: "NUMBER",
    pace: "RATE",
    base_url: "URL",
    state: "URL",
    secret: "TEXT",
    names: "NAMES",
    rates: "NAME=RATE",
}
_UNITS = "SIZE is in bytes or carries KiB, MiB or GiB; TIME is in seconds or carries ms, s, m or h. "
_BOTH = "Each option is also an environment variable; the command line wins."


class _Parser(argparse.ArgumentParser):
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            # Only the option's name is told: what follows a misspelled one may be a secret.
            option = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            self.error(f"there is no option {option!r}" if option else "there is a word too many")
        return found

    def error(self, message: str) -> NoReturn:
        raise BadSettingError(f"{self.prog}: {message}")


def parser(prog: str, about: str, options: Sequence[Option]) -> argparse.ArgumentParser:
    """The parser of one command."""
    made = _Parser(prog=prog, description=about, epilog=_UNITS + _BOTH if options else None, allow_abbrev=False)
    for option in options:
        default = f"; default {option.default}" if option.default else ""
        names = f"{option.environment} or {option.also}" if option.also else option.environment
        made.add_argument(
            f"--{option.name}",
            dest=option.field,
            action="append" if option.many else "store",
            metavar=_METAVARS.get(option.read, "WORD"),
            help=f"{option.help} ({names}{default})".replace("%", "%%"),
        )
    return made


def values(
    prog: str,
    options: Sequence[Option],
    given: argparse.Namespace,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Each option's value by field name. Raises `BadSettingError`; a value that may be secret is not quoted."""
    found: dict[str, Any] = {}
    for option in options:
        told = getattr(given, option.field)
        text: str | None = ",".join(told) if isinstance(told, list) else told
        source = f"--{option.name}"
        for name in (option.environment, option.also):
            if text is None and environment.get(name):
                text, source = environment[name], name
        try:
            found[option.field] = option.read(option.default if text is None else text)
        except ValueError as error:
            quoted = f" not {text!r}" if option.shown else ""
            raise BadSettingError(f"{prog}: {source}: {error},{quoted}".rstrip(",")) from None
    return found


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
