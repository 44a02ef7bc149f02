"""Suites of others, in an environment of their own: what they need would otherwise bind what the tests are run with."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import venv
from typing import TYPE_CHECKING

from tests.support.fetch import CACHE, ROOT, Unavailable, alone

if TYPE_CHECKING:
    from pathlib import Path

LOCK = ROOT / "requirements-suites.lock"
SDK = "openai"
SECONDS = 900.0
"""For an installation or a suite."""


def environment(cache: Path = CACHE) -> Path:
    """The folder of the programs that the lock file names, made when that changed."""
    folder = cache / "suites"
    folder.mkdir(parents=True, exist_ok=True)
    with alone(cache / "suites.lock"):
        pins = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
        stamp = folder / ".installed"
        if not stamp.is_file() or stamp.read_text() != pins:
            stamp.unlink(missing_ok=True)
            venv.create(folder, clear=True)
            _pip(folder, "install", "--no-compile", "--require-hashes", "-r", str(LOCK))
            _unpack(folder)
            stamp.write_text(pins)
    return folder / "bin"


def sdk_tests(cache: Path = CACHE) -> Path:
    """The SDK's source tree, of the same version as in the environment."""
    (tree,) = (cache / "suites" / "source").glob(f"{SDK}-*/")
    return tree


def pinned(lock: str, name: str) -> str:
    """The lines of a lock file that pin `name`, without what it is to be installed with."""
    found = re.search(rf"^{name}(?:\[[^\]]*\])?(==[^\n]*\\\n(?:    --hash=\S+(?: \\)?\n)+)", lock, re.MULTILINE)
    if found is None:
        raise LookupError(name)
    return name + found[1]


def _unpack(folder: Path) -> None:
    source = folder / "source"
    source.mkdir()
    wanted = source / "wanted.txt"
    wanted.write_text(pinned(LOCK.read_text(), SDK))
    options = ("--no-deps", "--no-binary", SDK, "--no-build-isolation", "--require-hashes")
    _pip(folder, "download", *options, "--dest", str(source), "-r", str(wanted))
    (archive,) = source.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(source, filter="data")


def _pip(folder: Path, *arguments: str) -> None:
    python = ("--python", str(folder / "bin" / "python"))
    pip = [sys.executable, "-m", "pip", *python, "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable("what requirements-suites.lock pins", f"pip has to succeed; it ended with: {reason}")
