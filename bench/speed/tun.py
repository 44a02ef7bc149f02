"""A link in user space between two network namespaces of its own, for root on Linux.

Two TUN devices, one in each namespace, and this process in between, which delays, limits and drops packets: kernels
without netem have real handshakes, slow start and congestion control too. Nothing is changed outside of the two
namespaces, and they are removed at the end, also when the parent has died.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from bench.speed.counts import Counts
from bench.speed.serving import arguments
from bench.speed.shaping import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator

NEAR = "198.18.0.1"
FAR = "198.18.0.2"
"""Addresses for benchmarks (RFC 2544)."""
_IP = "/usr/sbin/ip"
_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_PI = 0x1001
_MTU = 1500
_IDLE = 0.5
ROOM = 256 * 1024
"""Bytes that may wait in each direction."""


def namespaces(number: int) -> tuple[str, str]:
    """Names of the client's and the server's side of the link of this process."""
    return f"deltawire-{number}-near", f"deltawire-{number}-far"


def available() -> bool:
    """Whether there can be such a link here."""
    return os.geteuid() == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK) and Path(_IP).exists()


def inside(namespace: str) -> list[str]:
    """What to put before a command that is to run in a namespace."""
    return [_IP, "netns", "exec", namespace]


@contextlib.contextmanager
def _link(congestion: str) -> Iterator[tuple[int, int]]:
    """Both devices, up and with their addresses; then nothing is left of them."""
    names, devices = namespaces(os.getpid()), list[int]()
    try:
        for side, (namespace, address) in enumerate(zip(names, (NEAR, FAR), strict=True)):
            _ip("netns", "add", namespace)
            name = f"dw{side}-{os.getpid()}"
            devices.append(_device(name))
            _ip("link", "set", name, "netns", namespace)
            _ip("-n", namespace, "address", "add", f"{address}/30", "dev", name)
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "link", "set", name, "mtu", str(_MTU), "up")
            # By route: a namespace may not set every algorithm as its default.
            route = ("198.18.0.0/30", "dev", name, "proto", "kernel", "scope", "link", "src", address)
            _ip("-n", namespace, "route", "change", *route, "congctl", congestion)
        yield devices[0], devices[1]
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # or a second one would leave namespaces behind
        for device in devices:
            os.close(device)
        for namespace in names:
            _ip("netns", "delete", namespace, check=False)


def _device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TUN_NO_PI))
    return device


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run([_IP, *words], check=check, capture_output=True)  # noqa: S603 - a fixed path, words of our own


def _carry(devices: tuple[int, int], directions: tuple[Direction, Direction], counts: Counts) -> None:
    """Carry packets until the parent is gone."""
    parent = os.getppid()
    waiting: tuple[deque[tuple[float, bytes]], deque[tuple[float, bytes]]] = (deque(), deque())
    while os.getppid() == parent:
        now = time.monotonic()
        soonest = min((queue[0][0] for queue in waiting if queue), default=now + _IDLE)
        readable, _, _ = select.select(devices, (), (), max(0.0, soonest - now))
        for device in readable:
            side = devices.index(device)
            _enter(device, directions[side], waiting[side])
        now = time.monotonic()
        for side, queue in enumerate(waiting):
            while queue and queue[0][0] <= now:
                with contextlib.suppress(OSError):  # the namespace is going away
                    os.write(devices[1 - side], queue.popleft()[1])
        counts.tell(directions[0].bytes, directions[1].bytes)


def _enter(device: int, direction: Direction, queue: deque[tuple[float, bytes]]) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            packet = os.read(device, 2 * _MTU)
            if (due := direction.due(time.monotonic(), len(packet))) is not None:
                queue.append((due, packet))


def main() -> None:
    """Be the link."""
    parser = arguments("A link in user space.")
    parser.add_argument("--delay", type=float, required=True, help="one way, in seconds")
    parser.add_argument("--rate", type=float, required=True, help="bits a second each way, 0 without limit")
    parser.add_argument("--congestion", required=True)
    parser.add_argument("--counts", type=Path, required=True)
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    directions = Direction(given.delay, given.rate, ROOM), Direction(given.delay, given.rate, ROOM)
    with _link(given.congestion) as devices:
        print(f"deltawire link listening on http://{FAR}", flush=True)
        _carry(devices, directions, Counts(given.counts))


if __name__ == "__main__":
    main()
