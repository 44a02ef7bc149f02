"""On what a measurement was made."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("deltawire", "aiohttp", "uvloop", "msgspec", "orjson")


def about() -> str:
    """Processor, kernel, Python and packages, and how busy the machine was, in one line."""
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    busy = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} x {processor(Path('/proc/cpuinfo'))}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {packages}; load average {busy:.2f} when it ended."
    )


def command(arguments: list[str] | None = None) -> str:
    """How it was called."""
    return f"deltawire {' '.join(sys.argv[1:] if arguments is None else arguments)}"


def processor(listed: Path) -> str:
    """The processor's name in a `cpuinfo` file, else that of its architecture."""
    try:
        lines = listed.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
