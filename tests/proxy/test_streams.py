"""What the commands do with standard streams that are closed, or that nobody reads any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from proxy import streams

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 60
COMMAND = [sys.executable, "-m", "proxy.cli"]
SERVE = [*COMMAND, "proxy", "--upstream", "http://127.0.0.1:9/v1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


def unread() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-"])
def test_a_server_serves_and_ends_as_ever_whatever_streams_are_closed(closed: str) -> None:
    with subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *SERVE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = (process.stderr if "2>&-" not in closed else process.stdout).readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(SECONDS) == 0
    assert b"listening" in said
    assert rest == b""


def test_a_server_serves_though_nobody_reads_where_it_listens() -> None:
    writing = unread()
    with subprocess.Popen(SERVE, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(SECONDS) == 0
    assert b"listening" in said
    assert rest == b""


def test_a_verdict_is_an_exit_code_though_nobody_reads_its_words(tmp_path: Path) -> None:
    body = tmp_path / "a.json"
    body.write_text('{"model": "m", "input": "x"}')
    writing = unread()
    done = subprocess.run(
        [*COMMAND, "explain", str(body), str(body)],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_streams_that_are_open_stay_what_they_are() -> None:
    before = [os.fstat(number).st_ino for number in (0, 1, 2)]
    streams.complete()
    assert [os.fstat(number).st_ino for number in (0, 1, 2)] == before


def test_lines_are_written_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    streams.say("one", "two")
    assert capsys.readouterr().out == "one\ntwo\n"
