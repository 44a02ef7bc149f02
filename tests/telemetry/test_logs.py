import asyncio
import io
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest
import structlog
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from telemetry import logs
from telemetry.traces import Tracing
from telemetry.turn import TurnRecord

SECRET = "sk-proj-abcdefgh12345678"
PROMPT = "the user's own words"


def quote(text: str) -> None:
    """Fail as libraries do: with what was given in the text of the exception and of its cause."""
    raise ValueError(text) from ConnectionResetError(104, text)


@pytest.fixture
def stream() -> Iterator[io.BytesIO]:
    """A stream that log lines go to; what the test configured is taken back."""
    root = logging.getLogger()
    level = root.level
    written = io.BytesIO()
    logs.configure("info", written)
    yield written
    structlog.reset_defaults()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, logs._Bridge)]
    root.setLevel(level)


def lines(stream: io.BytesIO) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_level_and_utc_time(stream: io.BytesIO) -> None:
    structlog.get_logger().info("started", listen="127.0.0.1:8787")
    (line,) = lines(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {"event": "started", "level": "info", "listen": "127.0.0.1:8787"}
    assert stream.getvalue().endswith(b"}\n")


def test_a_turn_is_exactly_one_line_with_all_its_fields(stream: io.BytesIO) -> None:
    record = TurnRecord("req_1", transport="delta", status=200, items_total=9, items_covered=8, items_sent=1)
    logs.turn_line(record)
    (line,) = lines(stream)
    assert line["event"] == "turn"
    assert record.as_dict().items() <= line.items()


@pytest.mark.parametrize(
    ("record", "level"),
    [
        (TurnRecord("r", status=200), "info"),
        (TurnRecord("r", status=404, upstream_error="not_found"), "info"),
        (TurnRecord("r", status=503), "warning"),
        (TurnRecord("r", status=400, error="invalid_json"), "warning"),
    ],
)
def test_a_failed_turn_is_a_warning(stream: io.BytesIO, record: TurnRecord, level: str) -> None:
    logs.turn_line(record)
    assert lines(stream)[0]["level"] == level


def test_lines_below_the_level_are_not_written(stream: io.BytesIO) -> None:
    structlog.get_logger().debug("detail")
    logs.configure("warning", stream)
    logs.turn_line(TurnRecord("r", status=200))
    assert lines(stream) == []


def test_a_later_configuration_holds_for_loggers_that_were_used_before(stream: io.BytesIO) -> None:
    log, later = structlog.get_logger(), io.BytesIO()
    log.info("one")
    logs.configure("debug", later)
    log.debug("two")
    assert [line["event"] for line in lines(stream)] == ["one"]
    assert [line["event"] for line in lines(later)] == ["two"]


def test_an_unknown_level_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        logs.configure("loud")


def test_no_line_carries_a_secret_or_content_even_at_debug(stream: io.BytesIO) -> None:
    logs.configure("debug", stream)
    log = structlog.get_logger()
    log.debug("dial", headers={"Authorization": f"Bearer {SECRET}"}, url=f"https://u:{SECRET}@host/v1?key={SECRET}")
    log.debug(
        "refused", why=f"Bearer {SECRET}", body=PROMPT, frame=PROMPT.encode(), request={"input": [{"text": PROMPT}]}
    )
    try:
        quote(PROMPT)
    except ValueError:
        log.exception("failed")
    logs.turn_line(TurnRecord("r", upstream_error=SECRET, status=500))
    assert len(lines(stream)) == 4
    assert SECRET.encode() not in stream.getvalue()
    assert PROMPT.encode() not in stream.getvalue()


def test_an_exception_shows_types_and_places(stream: io.BytesIO) -> None:
    try:
        quote(PROMPT)
    except ValueError as error:
        structlog.get_logger().error("failed", exc_info=error)
    causes = cast("list[dict[str, Any]]", lines(stream)[0]["exception"])
    assert [(cause["type"], cause.get("errno")) for cause in causes] == [
        ("ValueError", None),
        ("ConnectionResetError", 104),
    ]
    assert [re.sub(r":\d+", "", place) for place in causes[0]["at"]] == [
        "test_logs.py test_an_exception_shows_types_and_places",
        "test_logs.py quote",
    ]


def test_a_logger_whose_stream_is_gone_fails_no_caller(stream: io.BytesIO) -> None:
    stream.close()
    logs.turn_line(TurnRecord("r", status=200))
    logging.getLogger("library").warning("late")


def test_bound_context_is_merged_into_each_line(stream: io.BytesIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="req_9", token=SECRET):
        structlog.get_logger().info("retry")
    structlog.get_logger().info("after")
    inside, after = lines(stream)
    assert inside["request_id"] == "req_9"
    assert inside["token"] == "[redacted]"
    assert "request_id" not in after


def test_a_line_inside_a_span_carries_its_ids(stream: io.BytesIO) -> None:
    tracing = Tracing.to_exporter(InMemorySpanExporter())
    handle = tracing.start("00-" + "a" * 32 + "-" + "b" * 16 + "-01", None)
    assert handle is not None
    with tracing.current(handle):
        logs.turn_line(TurnRecord("r", status=200))
    logs.turn_line(TurnRecord("r", status=200))
    inside, outside = lines(stream)
    assert inside["trace_id"] == "a" * 32
    assert inside["span_id"] == f"{handle.get_span_context().span_id:016x}"
    assert "trace_id" not in outside


def test_warnings_of_libraries_come_as_json_lines_with_their_logger(stream: io.BytesIO) -> None:
    library = logging.getLogger("aiohttp.server")
    library.info("GET /v1/responses")
    library.warning("sent to %s", f"https://u:{SECRET}@host/")
    library.log(35, "between the levels")
    library.critical("worst")
    shown = [(line["logger"], line["level"], line["event"]) for line in lines(stream)]
    assert shown == [
        ("aiohttp.server", "warning", "sent to https://[redacted]@host/"),
        ("aiohttp.server", "warning", "between the levels"),
        ("aiohttp.server", "error", "worst"),
    ]


def test_what_a_client_offers_as_a_subprotocol_is_not_written(stream: io.BytesIO) -> None:
    logging.getLogger("aiohttp.websocket").warning("client protocols %r", [f"openai-insecure-api-key.{SECRET}"])
    assert lines(stream)[0]["event"] == "client protocols %r"
    assert SECRET.encode() not in stream.getvalue()


def test_an_exception_that_a_library_logs_loses_its_text(stream: io.BytesIO) -> None:
    try:
        quote(PROMPT)
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling request")
    (line,) = lines(stream)
    assert cast("list[dict[str, Any]]", line["exception"])[0]["type"] == "ValueError"
    assert PROMPT.encode() not in stream.getvalue()


def test_a_broken_log_call_of_a_library_writes_its_template_alone(
    stream: io.BytesIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the test runner's own handlers, which rightly object.
    (bridge,) = (handler for handler in logging.getLogger().handlers if isinstance(handler, logs._Bridge))
    monkeypatch.setattr(logging.getLogger(), "handlers", [bridge])
    logging.getLogger("library").warning("%d turns", PROMPT)
    assert lines(stream)[0]["event"] == "%d turns"


async def test_the_loops_report_of_a_failed_task_does_not_quote_the_exception(stream: io.BytesIO) -> None:
    async def fail() -> None:
        raise ValueError(PROMPT)

    task = asyncio.ensure_future(fail())
    await asyncio.wait([task])
    error = task.exception()
    asyncio.get_running_loop().call_exception_handler(
        {"message": "never retrieved", "exception": error, "future": task}
    )
    (line,) = lines(stream)
    assert line["logger"] == "asyncio"
    assert PROMPT.encode() not in stream.getvalue()


def test_configuring_twice_bridges_libraries_once(stream: io.BytesIO) -> None:
    logs.configure("info", stream)
    logging.getLogger("library").warning("once")
    assert len(lines(stream)) == 1


def test_captured_lines_are_dicts_as_they_would_have_been_written(stream: io.BytesIO) -> None:
    with logs.capture() as captured:
        logs.turn_line(TurnRecord("req_1", status=502, error="link_lost"))
        structlog.get_logger().info("dial", api_key=SECRET)
    turn, dial = captured
    assert (turn["event"], turn["log_level"], turn["error"]) == ("turn", "warning", "link_lost")
    assert dial["api_key"] == "[redacted]"
    assert lines(stream) == []
    logs.turn_line(TurnRecord("req_2", status=200))
    assert lines(stream)[0]["request_id"] == "req_2"


def test_lines_go_to_stderr_by_default() -> None:
    code = (
        "from telemetry import logs; from telemetry.turn import TurnRecord; logs.configure(); "
        "logs.turn_line(TurnRecord('req_1', status=200))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b""
    assert orjson.loads(done.stderr)["request_id"] == "req_1"
