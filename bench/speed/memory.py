"""What the sidecar holds for conversations that are open but idle."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.speed import hops
from bench.speed.hops import SIDECAR
from bench.speed.results import Finding, Section, Table
from bench.speed.turns import Http, Talk, TurnFailed
from bench.speed.workload import Load

if TYPE_CHECKING:
    from collections.abc import Sequence

CONVERSATIONS = 200
HISTORY = 1_000_000
_WARM = 10
_MOST = 32_000
_SETTLED = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident bytes of the sidecar after so many conversations."""

    conversations: int
    resident: int


async def measured(*, conversations: int = CONVERSATIONS, history: int = HISTORY) -> Section:
    """The whole measurement: conversations of two turns, one after the other, none of which ends."""
    async with hops.stub(events=5) as upstream, hops.opened(SIDECAR, upstream) as hop:
        client = Http(hop.base)
        try:
            for number in range(_WARM):
                await _talk(client, number, history)
            samples = [await _sample(hop, 0)]
            for number in range(conversations):
                await _talk(client, _WARM + number, history)
                if number + 1 in {conversations // 2, conversations}:
                    samples.append(await _sample(hop, number + 1))
        finally:
            await client.close()
    return section(samples, history)


async def _talk(client: Http, number: int, history: int) -> None:
    load = Load(1000 + number)
    talk = Talk(load.envelope())
    await client.turn(talk, load.history(history))
    answer = await client.turn(talk, [load.output("call_1", 2000)])
    if answer.transport != "delta":
        raise TurnFailed(f"a turn that should be a delta went by {answer.transport}")


async def _sample(hop: hops.Hop, conversations: int) -> Sample:
    await asyncio.sleep(_SETTLED)
    if hop.child is None:
        raise RuntimeError("nothing in between")
    return Sample(conversations, hop.child.resident())


def section(samples: Sequence[Sample], history: int) -> Section:
    """The report; the first sample is from before the conversations."""
    before, *later = samples
    rows = [
        (sample.conversations, sample.resident / 1e6, (sample.resident - before.resident) / 1e3 / sample.conversations)
        for sample in later
    ]
    last = later[-1]
    retained = (last.resident - before.resident) / last.conversations
    size = f"{history / 1e6:g} MB"
    return Section(
        "What an open conversation holds",
        (
            f"Conversations of {size} history and two turns, one after the other, {_WARM} more before all.",
            "What is retained is growth of the sidecar's resident memory.",
        ),
        (Table("Sidecar", ("conversations", "resident, MB", "retained each, kB"), tuple(rows)),),
        (),
        (Finding(f"bytes retained for each of {last.conversations} of {size}", _MOST, retained, at_least=False),),
    )
