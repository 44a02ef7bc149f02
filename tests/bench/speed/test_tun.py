import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.child import StartFailed, running
from bench.speed import tun
from bench.speed.counts import Counts


def test_without_root_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not tun.available()


def test_each_link_has_namespaces_of_its_own() -> None:
    assert len({*tun.namespaces(1), *tun.namespaces(2)}) == 4
    assert tun.inside("x")[-2:] == ["exec", "x"]


_SERVER = f"""
import socket
server = socket.create_server(("{tun.FAR}", 0))
print("deltawire far listening on http://x:%d" % server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(connection.recv(100))
    connection.close()
"""
_CLIENT = f"""
import socket, sys, time
began = time.monotonic()
there = socket.create_connection(("{tun.FAR}", int(sys.argv[1])))
connected = time.monotonic() - began
there.sendall(b"hello")
assert there.recv(100) == b"hello"
used = there.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
print(connected, used)
"""


def _told(folder: Path) -> list[str]:
    return ["--delay", "0.02", "--rate", "20e6", "--congestion", "reno", "--counts", str(folder / "counts")]


async def test_a_link_delays_counts_and_leaves_nothing_behind_or_is_not_to_be_had(tmp_path: Path) -> None:
    if not tun.available():
        with pytest.raises(StartFailed):
            async with running([sys.executable, "-m", "bench.speed.tun", *_told(tmp_path)], {"link"}):
                pass
        return
    counts = Counts(tmp_path / "counts", create=True)
    async with running([sys.executable, "-m", "bench.speed.tun", *_told(tmp_path)], {"link"}) as link:
        near, far = tun.namespaces(link.pid)
        async with running([*tun.inside(far), sys.executable, "-c", _SERVER], {"far"}) as server:
            port = server.urls["far"].rpartition(":")[2]
            said = subprocess.run(
                [*tun.inside(near), sys.executable, "-c", _CLIENT, port], capture_output=True, text=True, check=True
            )
        connected, used = said.stdout.split()
        assert float(connected) >= 0.04
        assert used == "reno"
        carried = counts.read()
        assert carried.up > 200
        assert carried.down > 150
    counts.close()
    listed = subprocess.run(["/usr/sbin/ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert near not in listed
    assert far not in listed
