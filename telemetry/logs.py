"""Log lines: JSON on stderr, one per turn, no content, no secret, whatever is passed to the logger.

Modules log with `structlog.get_logger()`; libraries that use the standard library's logging are heard from WARNING up.
"""

import logging
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, BinaryIO, Final

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from telemetry import redact
from telemetry.turn import TurnRecord

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
MAX_FRAMES: Final = 8
MAX_CAUSES: Final = 4
_QUOTING: Final = frozenset({"aiohttp.websocket"})
"""Loggers whose arguments quote clients: this one shows offered subprotocols, as which browsers send their keys."""


def configure(level: str = "info", stream: BinaryIO | None = None) -> None:
    """Write lines of `level` and above to `stream` (stderr when not given). May be called again.

    Raises `ValueError` for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"log level must be one of {', '.join(LEVELS)}")
    structlog.configure(
        processors=[*_PROCESSORS, _render],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=_Lines(stream or sys.stderr.buffer),
        # A cached logger would keep the level and the stream of an earlier call; building one costs two microseconds.
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)]
    root.addHandler(_Bridge(logging.WARNING))
    root.setLevel(logging.WARNING)


def turn_line(record: TurnRecord) -> None:
    """Write the one line of a finished turn: a warning when the turn failed, information otherwise."""
    log = _logger()
    (log.warning if record.failed else log.info)("turn", **record.as_dict())


@contextmanager
def capture() -> Iterator[list[EventDict]]:
    """Collect log lines instead of writing them, as the dicts that would have been rendered (also for users' tests)."""
    with structlog.testing.capture_logs(processors=_PROCESSORS) as lines:
        yield lines


def _logger() -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # Looked up instead of imported: with tracing off, OpenTelemetry is never loaded.
    api = sys.modules.get("opentelemetry.trace")
    if api is not None:
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            event["trace_id"] = f"{context.trace_id:032x}"
            event["span_id"] = f"{context.span_id:016x}"
    return event


def _describe_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Types and places only: the text of an exception may quote a key, a URL or a prompt."""
    given = event.pop("exc_info", None)
    if given is True:
        given = sys.exc_info()
    error = given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        causes: list[dict[str, object]] = []
        while error is not None and len(causes) < MAX_CAUSES:
            causes.append(_cause(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        event["exception"] = causes
    return event


def _cause(error: BaseException) -> dict[str, object]:
    cause: dict[str, object] = {"type": type(error).__qualname__, "at": _frames(error.__traceback__)}
    if isinstance(error, OSError) and error.errno is not None:
        cause["errno"] = error.errno
    return cause


def _frames(traceback: TracebackType | None) -> list[str]:
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}" for frame, line in walk_tb(traceback)
    ]
    return frames[-MAX_FRAMES:]


def _redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return redact.event(event)


def _render(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    return orjson.dumps(event)


_PROCESSORS: Final[list[Processor]] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _add_trace,
    _describe_exception,
    _redact,
]


class _Lines:
    """The logger under all others, and its own factory: one write per line, so that lines of threads do not mix."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __call__(self, *_args: object) -> "_Lines":
        return self

    def msg(self, line: bytes) -> None:
        # A stderr that is closed or full must not fail the turn that wanted to say something.
        with suppress(OSError, ValueError):
            self._stream.write(line + b"\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


class _Bridge(logging.Handler):
    """Passes records of foreign loggers on, through the same processors."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = str(record.msg) if record.name in _QUOTING else record.getMessage()
        except Exception:  # noqa: BLE001 (a library's broken log call is no reason to fail, nor to print its arguments)
            event = str(record.msg)
        extra: MutableMapping[str, Any] = {"logger": record.name}
        if record.exc_info:
            extra["exc_info"] = record.exc_info
        level = max(known for known in LEVELS.values() if known <= max(record.levelno, logging.DEBUG))
        _logger().log(level, event, **extra)
