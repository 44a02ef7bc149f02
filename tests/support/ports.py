"""Ports on loopback."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nothing listens on just now; for programs that cannot be told to choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port
