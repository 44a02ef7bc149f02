"""The ledger of a server that is stopped, killed, or cannot write."""

from __future__ import annotations

import json
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.sidecar import Server
from tests.support import http
from upstream.engine import Usage
from upstream.settling.ledger import line
from upstream.settling.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.sidecar import Start

_LARGE = 1 << 20
_LINE = len(line(Outcome("resp_" + "0" * 50, b"", "http", "completed", "m", Usage(1), 0, 0.0), None))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def _served(start: Start, path: Path) -> Server:
    return Server(start, "--ledger", str(path), tool_turns=0)


def _ask(server: Server, **values: Any) -> str:
    body = json.dumps({"model": "m", "input": "hi", **values}).encode()
    answer = http.post(f"{server.base_url}/responses", body)
    assert answer.status == 200, answer.body
    name: str = answer.json()["id"]
    return name


def _chain(server: Server, turns: int) -> list[str]:
    ids = [_ask(server)]
    for _ in range(turns - 1):
        ids.append(_ask(server, previous_response_id=ids[-1]))
    return ids


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + http.SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _ids(path: Path) -> list[str]:
    """Ids of all lines that are JSON, after the padding."""
    found = []
    for text in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(text)
        except ValueError:
            continue
        found.append(value["response_id"])
    return found


def test_at_sigterm_every_turn_has_its_line_in_the_order_of_its_conversation(start: Start, path: Path) -> None:
    server = _served(start, path)
    with ThreadPoolExecutor(4) as pool:
        chains = list(pool.map(lambda _: _chain(server, 12), range(4)))
    assert server.command.stop() == 0

    written = _ids(path)
    assert sorted(written) == sorted(name for chain in chains for name in chain)
    for chain in chains:
        assert [name for name in written if name in set(chain)] == chain


def test_a_killed_server_leaves_whole_lines_and_the_next_one_goes_on_after_them(start: Start, path: Path) -> None:
    server = _served(start, path)
    made = _chain(server, 20)
    server.command.process.kill()
    server.command.process.wait()
    with path.open("ab") as file:
        file.write(b'{"time":"2026')  # as a crash in the middle of a line would have left it
    again = _served(start, path)
    more = _chain(again, 3)
    assert again.command.stop() == 0

    written = _ids(path)
    assert written[-3:] == more
    assert made[: len(written) - 3] == written[:-3]
    broken = [text for text in path.read_bytes().split(b"\n") if text and b"response_id" not in text]
    assert broken == [b'{"time":"2026']


def test_a_server_that_is_killed_while_it_serves_tells_no_turn_twice_and_none_that_was_not(
    start: Start, path: Path
) -> None:
    server = _served(start, path)
    answered: list[str] = []

    def talk(_: int) -> None:
        with suppress(OSError, HTTPException):
            while True:
                answered.append(_ask(server))

    with ThreadPoolExecutor(4) as pool:
        talks = [pool.submit(talk, number) for number in range(4)]
        _until(lambda: len(answered) > 40 and path.stat().st_size > 0)
        server.command.process.kill()
        for one in talks:
            one.result()
    server.command.process.wait()

    lines = path.read_bytes().split(b"\n")
    written = [json.loads(text)["response_id"] for text in lines[:-1]]
    assert len(set(written)) == len(written) > 0
    # Of each of the four at most the answer that was on its way is not known here, and at the end at most a portion lost.
    assert len(set(written) - set(answered)) <= 4


def test_a_ledger_that_was_moved_is_made_anew(start: Start, path: Path) -> None:
    server = _served(start, path)
    first = _ask(server)
    _until(lambda: _ids(path) == [first])
    path.rename(path.with_suffix(".1"))
    second = _ask(server)
    assert server.command.stop() == 0

    assert (_ids(path.with_suffix(".1")), _ids(path)) == ([first], [second])


def _full_disk(server: Server, size: int) -> None:
    """No file of the server's grows beyond this size."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(server.command.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def _padded(path: Path) -> int:
    """A ledger that is large already, so that a limit of its size leaves room for the log."""
    pad = {"response_id": "before", "pad": "x" * _LARGE}
    path.write_text(json.dumps(pad) + "\n")
    return path.stat().st_size


def test_turns_go_on_while_the_ledger_cannot_be_written_and_nothing_is_lost(start: Start, path: Path) -> None:
    size = _padded(path)
    server = _served(start, path)
    _full_disk(server, size + 2 * _LINE + 7)
    made = _chain(server, 10)
    _until(lambda: any(record["event"] == "settling_failed" for record in server.command.records()))
    _full_disk(server, resource.RLIM_INFINITY)
    assert server.command.stop() == 0

    assert _ids(path) == ["before", *made]


def test_what_could_never_be_written_is_told_at_the_end(start: Start, path: Path) -> None:
    size = _padded(path)
    server = _served(start, path)
    _full_disk(server, size + 1)
    _chain(server, 4)

    assert server.command.stop(signal.SIGTERM) == 3
    assert "deltawire upstream: 4 records of turns could not be written" in server.command.stderr
    assert _ids(path) == ["before"]
