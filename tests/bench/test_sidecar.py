import sys

import aiohttp
import pytest

from bench import sidecar
from bench.sidecar import SidecarFailed, spawned


def _script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


async def test_the_real_sidecar_listens_and_ends(http_session: aiohttp.ClientSession) -> None:
    async with spawned("http://127.0.0.1:9/v1") as origin, http_session.get(f"{origin}/v1/models") as answer:
        assert answer.status == 502
    with pytest.raises(aiohttp.ClientConnectionError):
        await http_session.get(f"{origin}/v1/models")


async def test_it_gets_the_upstream_and_free_ports() -> None:
    text = (
        "import sys; print('deltawire proxy listening on http://h:1'); "
        "print('deltawire admin listening on', 'http://' + '_'.join(sys.argv[1:]))"
    )
    async with spawned("http://up/v1", "--echo", "lenient", command=_script(text)) as origin:
        assert origin == "http://h:1"


async def test_settings_of_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTAWIRE_TRANSPORT", "http")
    text = "import os; raise SystemExit('found' if 'DELTAWIRE_TRANSPORT' in os.environ else 'clean')"
    with pytest.raises(SidecarFailed, match="clean"):
        async with spawned("http://up/v1", command=_script(text)):
            pass


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise SystemExit('bad setting')", "bad setting"), ("pass", "It ended without a word.")],
)
async def test_a_sidecar_that_does_not_come_up_says_why(text: str, said: str) -> None:
    with pytest.raises(SidecarFailed, match=said):
        async with spawned("http://up/v1", command=_script(text)):
            pass


async def test_a_sidecar_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "START_LIMIT", 0.0)
    with pytest.raises(SidecarFailed):
        async with spawned("http://up/v1", command=_script("import time; time.sleep(60)")):
            pass


async def test_a_sidecar_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "STOP_LIMIT", 0.0)
    text = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for name in ('proxy', 'admin'): print(f'deltawire {name} listening on http://h:1', flush=True)\n"
        "time.sleep(60)"
    )
    async with spawned("http://up/v1", command=_script(text)) as origin:
        assert origin == "http://h:1"
