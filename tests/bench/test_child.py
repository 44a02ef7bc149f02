import os
import sys
from contextlib import AbstractAsyncContextManager

import pytest

from bench import child
from bench.child import Child, StartFailed, cpu_of, running


def _started(text: str, *wanted: str) -> AbstractAsyncContextManager[Child]:
    return running((sys.executable, "-c", text), wanted or ("server",))


_UP = "import time; print('deltawire server listening on http://h:1', flush=True); "


async def test_it_is_there_once_all_its_listeners_are() -> None:
    text = "print('a word'); print('deltawire one listening on http://h:1'); print('deltawire two listening on https://h:2')"
    async with _started(text, "one", "two") as found:
        assert found.urls == {"one": "http://h:1", "two": "https://h:2"}


async def test_settings_of_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTAWIRE_TRANSPORT", "http")
    text = "import os; raise SystemExit('found' if 'DELTAWIRE_TRANSPORT' in os.environ else 'clean')"
    with pytest.raises(StartFailed, match="clean"):
        async with _started(text):
            pass


async def test_what_it_is_told_by_the_environment_reaches_it() -> None:
    text = "import os; raise SystemExit(os.environ['SAID'])"
    with pytest.raises(StartFailed, match="this"):
        async with running((sys.executable, "-c", text), {"server"}, {"SAID": "this"}):
            pass


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise SystemExit('bad setting')", "bad setting"), ("pass", "It ended without a word.")],
)
async def test_one_that_does_not_come_up_says_why(text: str, said: str) -> None:
    with pytest.raises(StartFailed, match=said):
        async with _started(text):
            pass


async def test_one_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "START_LIMIT", 0.0)
    with pytest.raises(StartFailed):
        async with _started("import time; time.sleep(60)"):
            pass


async def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STOP_LIMIT", 0.0)
    async with _started(f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_UP} time.sleep(60)") as found:
        pid = found.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_its_processor_time_grows_with_its_work_and_its_memory_with_what_it_holds() -> None:
    busy = "kept = b'a' * (64 << 20); sum(range(10**6)); "
    async with _started(f"{busy} {_UP} time.sleep(60)") as worked, _started(f"{_UP} time.sleep(60)") as idle:
        assert worked.cpu() > idle.cpu() > 0
        assert cpu_of(worked) > cpu_of(idle) > cpu_of(None) == 0
        assert worked.resident() - idle.resident() > 32 << 20
