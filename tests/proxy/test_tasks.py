from __future__ import annotations

import asyncio

from proxy.tasks import Tasks
from telemetry.logs import capture


async def test_a_task_has_a_name_and_is_kept_until_it_ends() -> None:
    tasks, gate = Tasks(), asyncio.Event()
    task = tasks.spawn(gate.wait(), "waiting")
    assert task.get_name() == "waiting"
    assert len(tasks) == 1
    gate.set()
    assert await task
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_failure_is_logged_with_the_tasks_name_and_without_its_words() -> None:
    async def fail() -> None:
        raise ValueError("a secret")

    tasks = Tasks()
    with capture() as lines:
        await asyncio.wait([tasks.spawn(fail(), "failing")])
        await asyncio.sleep(0)
    assert [(line["event"], line["task"], line["log_level"]) for line in lines] == [("task failed", "failing", "error")]
    assert "a secret" not in str(lines)
    assert lines[0]["exception"][0]["type"] == "ValueError"


async def test_cancelling_ends_all_tasks_and_waits_for_their_last_words() -> None:
    said: list[str] = []

    async def talk() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            said.append("bye")

    tasks = Tasks()
    for _ in range(3):
        tasks.spawn(talk(), "talking")
    await asyncio.sleep(0)
    with capture() as lines:
        await tasks.cancel()
    assert said == ["bye"] * 3
    assert lines == []
    assert len(tasks) == 0


async def test_finishing_lets_work_end_by_itself_within_the_limit() -> None:
    done: list[int] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(1)

    tasks = Tasks()
    tasks.spawn(work(), "work")
    await tasks.finish(30.0)
    assert done == [1]
    await tasks.finish(30.0)


async def test_finishing_cancels_what_takes_longer() -> None:
    tasks = Tasks()
    task = tasks.spawn(asyncio.Event().wait(), "stuck")
    await tasks.finish(0.0)
    assert task.cancelled()
