"""One agent in a process of its own: it runs a loop of tool calls and tells how it went.

A job comes as JSON on the command line, the result goes to stdout: so it can run in a namespace, and its processor time
is its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

from bench.speed import certificate
from bench.speed.serving import loop_factory
from bench.speed.turns import Client, Http, Socket, Talk
from bench.speed.workload import Load, call_id


class Job(msgspec.Struct, frozen=True):
    """A loop: `calls` tool calls, which take `idle` seconds each, by the client that `says` history, id or frames."""

    base: str
    says: str
    calls: int
    idle: float
    seed: int
    trusted: str
    """File of the certificate that the server shows."""


class Turn(msgspec.Struct, frozen=True):
    """One turn of it: seconds to the first token and to the end, and bytes of the request."""

    first: float
    whole: float
    sent: int


class Loop(msgspec.Struct, frozen=True):
    """How it went. Seconds: `wall` of all of it, tools included; `cpu` of the client."""

    turns: tuple[Turn, ...]
    wall: float
    cpu: float


async def run(job: Job) -> Loop:
    """The loop. Raises `TurnFailed`."""
    load = Load(job.seed)
    talk, new = Talk(load.envelope()), [load.question()]
    client = _client(job)
    turns = []
    cpu, began = time.process_time(), time.perf_counter()
    try:
        for call in range(job.calls + 1):
            if call:
                await asyncio.sleep(job.idle)
            answer = await client.turn(talk, new)
            turns.append(Turn(answer.first, answer.whole, answer.sent))
            new = [load.output(call_id(answer.items))]
    finally:
        await client.close()
    return Loop(tuple(turns), time.perf_counter() - began, time.process_time() - cpu)


def _client(job: Job) -> Client:
    tls = certificate.for_client(Path(job.trusted)) if job.base.startswith("https") else None
    if job.says == "frames":
        return Socket(job.base, tls=tls)
    return Http(job.base, chained=job.says == "id", tls=tls)


def main() -> None:
    """Run the job that the command line has."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(msgspec.json.encode(runner.run(run(job))).decode())


if __name__ == "__main__":
    main()
