from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.server_metrics import ServerMetrics
from upstream.settings import UpstreamSettings
from upstream.sinks import Sinks

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_is_added_to_the_ledger_is_in_its_file_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    sinks = Sinks(UpstreamSettings(ledger=str(path)), ServerMetrics())
    assert sinks.ledger is not None
    for number in range(1000):
        text = b"%d\n" % number
        sinks.ledger.add(text, len(text))

    assert await sinks.close(10) == 0
    assert path.read_bytes().split() == [b"%d" % number for number in range(1000)]


async def test_without_a_ledger_there_is_none() -> None:
    sinks = Sinks(UpstreamSettings(), ServerMetrics())

    assert sinks.ledger is None
    assert await sinks.close(0) == 0


@pytest.mark.parametrize("where", ["/dev/null", "/absent/file", "/"])
async def test_a_ledger_that_cannot_be_opened_is_one_clear_error(where: str) -> None:
    with pytest.raises(ValueError, match=f"--ledger: {where}: ") as bad:
        Sinks(UpstreamSettings(ledger=where), ServerMetrics())
    assert bad.value.__suppress_context__ is True
