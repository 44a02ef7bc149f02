import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from upstream.tasks import spawn


async def test_a_task_has_its_name_and_gives_its_result() -> None:
    async def work() -> int:
        return 3

    task = spawn(work(), name="a-name")

    assert task.get_name() == "a-name"
    assert await task == 3


async def test_a_task_that_nobody_holds_runs_to_its_end() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    spawn(work(), name="unheld")
    gc.collect()

    await asyncio.wait_for(done.wait(), 5)


async def test_a_failure_is_logged_by_its_kind_and_not_by_its_text() -> None:
    async def work() -> None:
        raise ValueError("a secret")

    with capture_logs() as logs:
        task = spawn(work(), name="failing")
        with pytest.raises(ValueError, match="a secret"):
            await task
        await asyncio.sleep(0)

    assert logs == [{"event": "task_failed", "task": "failing", "error": "ValueError", "log_level": "error"}]


async def test_a_cancelled_task_is_no_failure() -> None:
    with capture_logs() as logs:
        task = spawn(asyncio.sleep(60), name="cancelled")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    assert logs == []
