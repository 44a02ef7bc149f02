from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.access.keys import make
from upstream.engine import Usage
from upstream.settling.backlog import PartlyWrittenError
from upstream.settling.ledger import LedgerFile, line
from upstream.settling.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OUTCOME = Outcome("resp_1", b"owner", "websocket", "completed", "gpt-5.5", Usage(10, 4, 3, 1), 1_800_000_000, 0.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def file(path: Path) -> Iterator[LedgerFile]:
    made = LedgerFile(str(path))
    yield made
    made.close()


def _read(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")


def test_a_line_says_who_used_what_when_and_how_it_ended() -> None:
    made = make("team-a")

    assert json.loads(line(_OUTCOME, made.entry)) == {
        "time": "2027-01-15T08:00:00Z",
        "response_id": "resp_1",
        "key_id": made.entry.id,
        "key_name": "team-a",
        "model": "gpt-5.5",
        "transport": "websocket",
        "input_tokens": 10,
        "cached_tokens": 4,
        "output_tokens": 3,
        "reasoning_tokens": 1,
        "status": "completed",
    }
    assert made.key.encode() not in line(_OUTCOME, made.entry)
    assert made.entry.hash.encode() not in line(_OUTCOME, made.entry)


def test_without_keys_a_line_names_none() -> None:
    told = json.loads(line(_OUTCOME, None))

    assert (told["key_id"], told["key_name"]) == (None, None)


@given(st.text())
def test_a_line_is_one_line_whatever_the_model_is_called(name: str) -> None:
    outcome = Outcome("resp_1", b"", "http", "failed", name, Usage(1), 0, 0.0)

    assert line(outcome, None).count(b"\n") == 1
    assert json.loads(line(outcome, None))["model"] == name[:128]


def test_lines_are_appended_to_what_is_there(path: Path, file: LedgerFile) -> None:
    file.append([b"1\n", b"2\n"])
    file.append([b"3\n"])
    again = LedgerFile(str(path))
    again.append([b"4\n"])
    again.close()

    assert _read(path) == [b"1", b"2", b"3", b"4", b""]


@given(st.integers(0, 3))
def test_a_line_cut_short_by_a_crash_stays_a_line_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "file"
    path.write_bytes(b'{"a":1}\n{"b":2}\n'[: 16 - cut])
    file = LedgerFile(str(path))
    file.append([b'{"c":3}\n'])
    file.close()

    lines = [text for text in _read(path) if text]
    assert lines[0] == b'{"a":1}'
    assert lines[-1] == b'{"c":3}'
    assert len(lines) == 3


def test_a_file_that_was_moved_is_made_anew(path: Path, file: LedgerFile) -> None:
    file.append([b"1\n"])
    path.rename(path.with_suffix(".1"))
    file.append([b"2\n"])
    path.unlink()
    file.append([b"3\n"])

    assert _read(path.with_suffix(".1")) == [b"1", b""]
    assert _read(path) == [b"3", b""]


class _FullDisk:
    """Takes so many bytes, then none."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = os.write

    def __call__(self, file: int, data: bytes) -> int:
        taken = data[: min(self.room, 3)]
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(taken)
        return self.write(file, taken)


@given(st.integers(0, 12))
def test_on_a_disk_that_fills_up_no_line_is_lost_or_written_twice(
    tmp_path_factory: pytest.TempPathFactory, room: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "file"
    file = LedgerFile(str(path))
    waiting = [b"11\n", b"22\n", b"33\n"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", _FullDisk(room))
        try:
            file.append(waiting)
        except PartlyWrittenError as error:
            waiting = waiting[error.count :]
        else:
            waiting = []
    file.append(waiting)
    file.close()

    whole = [text for text in _read(path) if text in {b"11", b"22", b"33"}]
    assert whole == [b"11", b"22", b"33"]
    assert path.read_bytes().endswith(b"\n")


def test_a_portion_is_on_the_disk_before_it_counts_as_written(
    file: LedgerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file.append([b"1\n", b"2\n"])
    assert len(synced) == 1

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output"):
        file.append([b"3\n"])


@pytest.mark.parametrize("where", ["", "absent/file"])
def test_what_cannot_be_opened_is_an_error_at_once(tmp_path: Path, where: str) -> None:
    with pytest.raises(OSError, match=r"Is a directory|No such file"):
        LedgerFile(str(tmp_path / where))


def test_what_is_no_file_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="not a regular file"):
        LedgerFile(os.devnull)


def test_the_file_is_not_for_all_to_read(path: Path, file: LedgerFile) -> None:
    assert path.stat().st_mode & 0o007 == 0
