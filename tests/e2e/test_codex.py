"""The Codex CLI at work: over HTTP through the sidecar, and with its own WebSocket mode, which is the figure to beat."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.e2e.sidecar import Server, Sidecar
from tests.support import fetch
from tests.support.missing import missing
from tests.support.relay import Relay

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.sidecar import Start

pytestmark = pytest.mark.clients

CALLS = 20
MANY = 12
FEW = 3
SECONDS = 180
NOBODY = "http://127.0.0.1:9"
CONFIG = """
model = "gpt-5.5"
model_provider = "here"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.here]
name = "here"
base_url = "{base_url}"
wire_api = "responses"
env_key = "DELTAWIRE_TEST_KEY"
supports_websockets = {websockets}
request_max_retries = 0
stream_max_retries = 0
"""


class Work(NamedTuple):
    """What one run of Codex did."""

    commands: list[tuple[str, str, int]]
    message: str


class Codex:
    """Runs the CLI in a home and a work folder of its own. It executes what it is told: `echo`, by our own server."""

    def __init__(self, launcher: Path, folder: Path) -> None:
        self._launcher = launcher
        self._folder = folder

    def work(self, name: str, base_url: str, *, websockets: bool = False, resume: bool = False) -> Work:
        """One `codex exec`; `resume` goes on with the session of the last one of this name, in a new process."""
        home, place = self._folder / name / "home", self._folder / name / "work"
        for folder in (home, place):
            folder.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(CONFIG.format(base_url=base_url, websockets=str(websockets).lower()))
        action = ("exec", "resume", "--last") if resume else ("exec",)
        options = ("--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox")
        done = subprocess.run(
            [fetch.node(), self._launcher, *action, *options, "Say hello a few times."],
            cwd=place,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "CODEX_HOME": str(home),
                "DELTAWIRE_TEST_KEY": "sk-test",
                "HTTPS_PROXY": NOBODY,  # nothing leaves the machine
                "NO_PROXY": "127.0.0.1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
        return _work([json.loads(line) for line in done.stdout.splitlines()])


def _work(events: list[dict[str, Any]]) -> Work:
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    ran = [item for item in items if item["type"] == "command_execution"]
    commands = [(item["command"], item["aggregated_output"], item["exit_code"]) for item in ran]
    return Work(commands, "\n".join(item["text"] for item in items if item["type"] == "agent_message"))


@pytest.fixture(scope="module")
def server(start: Start) -> Server:
    return Server(start, tool_turns=CALLS)


@pytest.fixture
def codex(node_clients: Path, tmp_path: Path) -> Codex:
    try:
        return Codex(fetch.codex(node_clients), tmp_path)
    except fetch.Unavailable as gone:
        missing(gone.what, gone.how)


def test_twenty_tool_calls_travel_as_deltas_with_a_third_of_the_bytes_of_codex_own_websocket_mode(
    codex: Codex, start: Start, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with Relay(server.base_url) as http:
        plain = codex.work("plain", http.url)
    with Relay(server.base_url, compression=False) as own:
        native = codex.work("native", own.url, websockets=True)
    with Relay(server.base_url) as squeezed:
        codex.work("compressed", squeezed.url, websockets=True)
    with Relay(server.base_url) as packed:
        sidecar = Sidecar(start, packed.url, "--link-compression", "on")
        codex.work("packed", sidecar.base_url)
        assert sidecar.metric("deltawire_turns_total", transport="delta") == CALLS
        sidecar.command.stop()
    with Relay(server.base_url) as behind:
        sidecar = Sidecar(start, behind.url)
        through = codex.work("sidecar", sidecar.base_url)
        turns = sidecar.turns()
        sent = int(sidecar.metric("deltawire_upstream_bytes_total"))
        received = int(sidecar.metric("deltawire_client_bytes_total"))
        deltas = sidecar.metric("deltawire_turns_total", transport="delta")
        sidecar.command.stop()

    for work in (through, plain, native):
        assert len(work.commands) == CALLS
        assert all(re.search(r"\becho\b", command) and code == 0 for command, _, code in work.commands)
        assert work.message.startswith(f"Done after {CALLS} tool results")
    assert through.commands == plain.commands == native.commands

    assert len(turns) == CALLS + 1
    assert deltas == CALLS

    figures = {
        "tool calls": CALLS,
        "codex over HTTP, everything it sent": http.bytes,
        "codex over its own WebSocket, messages and their framing, no compression": own.body_bytes,
        "codex over its own WebSocket, as negotiated": squeezed.body_bytes,
        "sidecar received": received,
        "sidecar sent upstream": sent,
        "sidecar on the wire, messages and their framing": behind.body_bytes,
        "sidecar on the wire, with --link-compression on": packed.body_bytes,
    }
    (fetch.CACHE / "codex-bytes.json").write_text(json.dumps(figures, indent=2) + "\n")
    with capsys.disabled():
        print("\nbytes up, Codex CLI:", json.dumps(figures, indent=2))  # noqa: T201 - the figures that docs quote
    assert 3 * sent <= own.body_bytes
    assert 2 * packed.body_bytes < behind.body_bytes


def test_codex_works_on_one_websocket_of_the_server_alone_and_every_turn_continues_the_last(
    codex: Codex, start: Start
) -> None:
    alone = Server(start, tool_turns=MANY)
    with Relay(alone.base_url) as relay:
        work = codex.work("alone", relay.url, websockets=True)
        upgrades = relay.upgrades
    turns = [record for record in alone.command.records() if record["event"] == "turn"]

    assert [(output, code) for _, output, code in work.commands] == [
        (f"deltawire {n}\n", 0) for n in range(1, MANY + 1)
    ]
    assert work.message.startswith(f"Done after {MANY} tool results")
    assert upgrades == 1
    assert {turn["transport"] for turn in turns} == {"websocket"}
    assert [turn["continued"] for turn in turns] == [False] + [True] * (len(turns) - 1)
    assert len(turns) > MANY


def test_a_session_resumed_in_a_new_process_goes_on_by_deltas(codex: Codex, start: Start) -> None:
    sidecar = Sidecar(start, Server(start, tool_turns=FEW).base_url)
    first = codex.work("session", sidecar.base_url)
    again = codex.work("session", sidecar.base_url, resume=True)
    assert len(first.commands) == len(again.commands) == FEW
    assert again.message.startswith(f"Done after {FEW} tool results")
    assert sidecar.metric("deltawire_turns_total", transport="full") == 1
    assert sidecar.metric("deltawire_turns_total", transport="delta") == 2 * FEW + 1


def test_codex_own_websocket_mode_is_carried_through_the_sidecar(codex: Codex, start: Start) -> None:
    server = Server(start, tool_turns=FEW)
    sidecar = Sidecar(start, server.base_url)
    through = codex.work("through", sidecar.base_url, websockets=True)
    directly = codex.work("directly", server.base_url, websockets=True)
    assert len(through.commands) == FEW
    assert through.commands == directly.commands


def test_codex_falls_back_to_http_at_once_where_the_upstream_has_no_websocket_mode(codex: Codex, start: Start) -> None:
    with Relay(Server(start, tool_turns=FEW).base_url, websocket=False) as relay:
        sidecar = Sidecar(start, relay.url)
        work = codex.work("fallback", sidecar.base_url, websockets=True)
        assert len(work.commands) == FEW
        # Its handshake names a beta and its requests do not: another tenant, whose first turn finds out for itself.
        assert sidecar.metric("deltawire_turns_total", transport="http", reason="first_turn") == 1
        assert sidecar.metric("deltawire_turns_total", transport="http", reason="no_websocket") == FEW
        assert sidecar.metric("deltawire_turns_total") == FEW + 1
        sidecar.command.stop()
