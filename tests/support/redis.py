"""A real Redis of the tests' own: its own port on loopback, its own folder, nothing kept."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import TYPE_CHECKING

from tests.support.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 20.0
STOP_SECONDS = 10.0
_TRIES = 5


class RedisServer:
    """One server process. It can be stopped and started again, on the same port, with nothing in it."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        for _ in range(_TRIES):
            self.port = free_port()
            if self._begin():
                return
        raise RuntimeError(f"redis-server does not start: {self._log()}")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Run again after `stop`. Does nothing when it runs."""
        if not self.running and not self._begin():
            raise RuntimeError(f"redis-server does not start again: {self._log()}")

    def stop(self) -> None:
        """End the process at once, as a crash does. Clients see their connections closed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def flush(self) -> None:
        """Forget everything."""
        answer = self._ask(b"FLUSHALL\r\n")
        if not answer.startswith(b"+OK"):
            raise RuntimeError(f"FLUSHALL was answered by {answer[:80]!r}")

    def wait_for_keys(self) -> None:
        """Return when there is anything in it."""
        deadline = time.monotonic() + START_SECONDS
        while (answer := self._ask(b"DBSIZE\r\n")) == b":0\r\n":
            if time.monotonic() > deadline:
                raise RuntimeError("nothing was written")
            time.sleep(0.01)
        if not answer.startswith(b":"):
            raise RuntimeError(f"DBSIZE was answered by {answer[:80]!r}")

    def _begin(self) -> bool:
        settings = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self._folder}
        command = [str(self._binary)]
        for name, value in settings.items():
            command += [f"--{name}", str(value)]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while self.running and time.monotonic() < deadline:
            try:
                if self._ask(b"PING\r\n").startswith(b"+PONG"):
                    return self.running  # it may be another's answer, when ours could not bind
            except OSError:
                time.sleep(0.02)
        self.stop()
        return False

    def _ask(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=STOP_SECONDS) as connection:
            connection.sendall(command)
            return connection.recv(256)

    def _log(self) -> str:
        return (self._folder / "redis.log").read_text(errors="replace")[-2000:]
