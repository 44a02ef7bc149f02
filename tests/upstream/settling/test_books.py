from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry.server_metrics import ServerMetrics
from tests.telemetry.test_server_metrics import samples
from upstream.access.keys import make
from upstream.engine import Usage
from upstream.settling.backlog import Backlog
from upstream.settling.books import Books
from upstream.settling.outcome import Outcome
from upstream.settling.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

_OUTCOME = Outcome("resp_1", b"me", "http", "completed", "m", Usage(10, 4, 3, 1), 7, 2.0, 0.25, 0.75)


async def test_a_turn_is_counted_and_written_with_the_key_of_its_owner() -> None:
    metrics, key = ServerMetrics("1"), make("team-a").entry
    written: list[bytes] = []

    async def write(lines: Sequence[bytes]) -> None:
        written.extend(lines)

    writer: Writer[bytes] = Writer("ledger", write, Backlog(most=2, most_bytes=10**6), metrics)
    books = Books(metrics, {b"me": key}.get, writer)
    for name in ("resp_1", "resp_2", "resp_3"):
        await asyncio.wait_for(books.room(), 10)
        books.ended(replace(_OUTCOME, response_id=name))
    assert await writer.close(10) == 0

    told = [json.loads(line) for line in written]
    assert [line["response_id"] for line in told] == ["resp_1", "resp_2", "resp_3"]
    assert told[0]["key_name"] == "team-a"
    assert samples(metrics, "turns_total") == {("completed", "http"): 3}
    assert samples(metrics, "first_token_seconds_sum") == {("http",): 1.5}


async def test_without_a_ledger_nothing_waits_and_turns_are_counted_all_the_same() -> None:
    metrics = ServerMetrics("1")
    books = Books(metrics, lambda _: None)
    await books.room()
    books.ended(replace(_OUTCOME, start_s=None, first_token_s=None))
    books.engine_failed("crashed")

    assert samples(metrics, "turns_total") == {("completed", "http"): 1}
    assert samples(metrics, "first_token_seconds_sum") == {}
    assert samples(metrics, "engine_failures_total")["crashed",] == 1
