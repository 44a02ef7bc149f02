"""A TCP relay that counts what clients send, so that two programs' bytes on the wire are compared by one scale."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_CHUNK = 1 << 16
_HEAD_END = b"\r\n\r\n"
_UPGRADE = re.compile(rb"\r\nupgrade: *websocket", re.IGNORECASE)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_EXTENSIONS = re.compile(rb"\r\nsec-websocket-extensions:[^\r]*", re.IGNORECASE)
JOIN_SECONDS = 10.0


class Relay:
    """Passes connections on to the origin of `url`.

    `head_bytes` counts the first request line and headers of each connection (a WebSocket's handshake), `body_bytes`
    whatever follows on it, `upgrades` the handshakes. With `compression=False` the offer of WebSocket compression is taken out of handshakes: it
    was never made, and message bytes are counted as they are. With `websocket=False` a handshake is answered by 404, as
    an upstream answers that has no WebSocket mode.
    """

    def __init__(self, url: str, *, compression: bool = True, websocket: bool = True) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._compression = compression
        self._websocket = websocket
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self.upgrades = 0
        self.head_bytes = 0
        self.body_bytes = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{parts.path}"
        self._spawn(self._accept)

    @property
    def bytes(self) -> int:
        """Everything that clients sent."""
        return self.head_bytes + self.body_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and end every thread."""
        with self._lock:
            sockets = [self._listener, *self._sockets]
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    def _spawn(self, run: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._sockets += [client, server]
            self._spawn(self._up, client, server)
            self._spawn(self._down, server, client)

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            head = b""
            while _HEAD_END not in head:
                chunk = client.recv(_CHUNK)
                if not chunk:
                    break
                head += chunk
            head, end, rest = head.partition(_HEAD_END)
            if not self._compression:
                head = _EXTENSIONS.sub(b"", head)
            upgrade = _UPGRADE.search(head) is not None
            self._count(len(head + end), len(rest), upgrade=upgrade)
            if upgrade and not self._websocket:
                client.sendall(_NOT_FOUND)
                client.shutdown(socket.SHUT_WR)
                return
            server.sendall(head + end + rest)
            while chunk := client.recv(_CHUNK):
                self._count(0, len(chunk))
                server.sendall(chunk)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while chunk := server.recv(_CHUNK):
                client.sendall(chunk)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)

    def _count(self, head: int, body: int, *, upgrade: bool = False) -> None:
        with self._lock:
            self.upgrades += upgrade
            self.head_bytes += head
            self.body_bytes += body
