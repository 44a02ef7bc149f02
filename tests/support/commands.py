"""The project's commands as child processes, as a user starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
_LISTENING = re.compile(r"^deltawire ([\w-]+) listening on (http://\S+)$", re.MULTILINE)


class Command:
    """One running `deltawire` command. Its output goes to files in `folder`."""

    def __init__(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "stdout", folder / "stderr"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DELTAWIRE_", "OTEL_"))}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "proxy.cli", *arguments],
                cwd=folder,
                env={**inherited, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def url(self, listener: str) -> str:
        """Origin of a listener (`proxy`, `admin`, `upstream`, `upstream-admin`), as the command printed it; waits for that."""
        deadline = time.monotonic() + READY_SECONDS
        known: dict[str, str] = {}
        while listener not in known:
            self._check(deadline)
            known = dict(_LISTENING.findall(self.stdout))
        return known[listener]

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The first match in what the command printed."""
        deadline = time.monotonic() + READY_SECONDS
        while (match := pattern.search(self.stdout)) is None:
            self._check(deadline)
        return match

    def records(self) -> list[dict[str, Any]]:
        """The log so far. Every line has to be a JSON object."""
        return [json.loads(line) for line in self.stderr.splitlines() if line.strip()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal the process and wait. Returns its exit code; a process that does not end is killed and an error."""
        if self.running:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"not gone {STOP_SECONDS} s after signal {number}: {self.stderr[-2000:]}") from None

    def _check(self, deadline: float) -> None:
        if not self.running:
            raise AssertionError(f"ended with {self.process.returncode}: {self.stdout[-500:]}{self.stderr[-4000:]}")
        if time.monotonic() > deadline:
            raise AssertionError(f"not ready after {READY_SECONDS} s: {self.stdout[-500:]}{self.stderr[-4000:]}")
        time.sleep(0.02)
