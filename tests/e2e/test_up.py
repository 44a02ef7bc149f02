"""`deltawire up` and the other commands as processes: what they print, how they end, what they refuse."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent import DELTA, FIRST_TURN, Agent
from tests.support import http
from tests.support.commands import Command
from tests.support.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.sidecar import Start

EXPORT = re.compile(r"^export OPENAI_BASE_URL=(http://127\.0\.0\.1:\d+/v1)$", re.MULTILINE)
ANY_PORTS = ("--proxy-listen", "127.0.0.1:0", "--upstream-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


def test_up_prints_the_line_that_a_client_needs_and_serves_a_conversation(start: Start) -> None:
    command = start("up", *ANY_PORTS)
    base_url = command.wait_for(EXPORT)[1]
    assert base_url == command.url("proxy") + "/v1"
    agent = Agent(base_url)
    agent.ask("one")
    agent.ask("two")
    assert agent.transports[0] == FIRST_TURN
    assert set(agent.transports[1:]) == {DELTA}
    admin = command.url("admin")
    for path in ("/healthz", "/readyz", "/metrics", "/api/turns", "/api/heads", "/api/links", "/"):
        assert http.get(admin + path).status == 200, path
    assert http.get(command.url("upstream") + "/v1/models").status == 200
    assert command.stop(signal.SIGTERM) == 0
    assert "Traceback" not in command.stderr
    assert command.records()


def test_ctrl_c_ends_up_as_cleanly(start: Start) -> None:
    command = start("up", *ANY_PORTS)
    command.wait_for(EXPORT)
    assert command.stop(signal.SIGINT) == 0
    assert "Traceback" not in command.stderr


def test_up_takes_its_settings_from_the_environment(tmp_path: Path) -> None:
    listen = {f"DELTAWIRE_{name}": "127.0.0.1:0" for name in ("PROXY_LISTEN", "UPSTREAM_LISTEN", "ADMIN")}
    command = Command(tmp_path, "up", env=listen)
    try:
        base_url = command.wait_for(EXPORT)[1]
        Agent(base_url).ask("one")
    finally:
        assert command.stop() == 0


def test_plain_listen_in_the_environment_means_the_sidecar(tmp_path: Path) -> None:
    port = free_port()
    env = {"DELTAWIRE_LISTEN": f"127.0.0.1:{port}", "DELTAWIRE_UPSTREAM_LISTEN": "127.0.0.1:0"}
    command = Command(tmp_path, "up", env={**env, "DELTAWIRE_ADMIN": "127.0.0.1:0"})
    try:
        assert command.wait_for(EXPORT)[1] == f"http://127.0.0.1:{port}/v1"
    finally:
        assert command.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(("proxy", "--listen", "nowhere"), "listen", id="an address without a port"),
        pytest.param(("proxy", "--upstream", "ftp://127.0.0.1/v1"), "upstream", id="a scheme that is no HTTP"),
        pytest.param(("proxy", "--transport", "pigeon"), "transport", id="an unknown transport"),
        pytest.param(("proxy", "--max-body", "much"), "max-body", id="a size that is none"),
        pytest.param(("proxy", "--link-max-age", "-5m"), "link-max-age", id="a negative time"),
        pytest.param(("proxy", "--state", "paper"), "state", id="an unknown state"),
        pytest.param(("proxy", "--state", "redis://127.0.0.1:1/0"), "secret", id="redis without a secret"),
        pytest.param(("proxy", "--no-such-option"), "no-such-option", id="an unknown option"),
        pytest.param(("upstream", "--engine", "steam"), "engine", id="an unknown engine"),
        pytest.param(("fly",), "fly", id="an unknown command"),
    ],
)
def test_a_bad_setting_is_one_clear_line_and_exit_code_2(arguments: tuple[str, ...], named: str, start: Start) -> None:
    command = start(*arguments)
    assert command.process.wait(60) == 2
    lines = [line for line in command.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert named in lines[0]
    assert not command.stdout


def test_a_bad_setting_in_the_environment_is_named_as_well(tmp_path: Path) -> None:
    command = Command(tmp_path, "proxy", env={"DELTAWIRE_MAX_LINKS": "many"})
    assert command.process.wait(60) == 2
    assert len(command.stderr.splitlines()) == 1
    assert re.search("max.links", command.stderr, re.IGNORECASE)


def test_a_port_that_is_taken_is_one_clear_line(start: Start) -> None:
    first = start("upstream", "--engine", "sim", "--listen", "127.0.0.1:0")
    taken = first.url("upstream").removeprefix("http://")
    second = start("upstream", "--engine", "sim", "--listen", taken)
    assert second.process.wait(60) == 2
    assert taken.split(":")[1] in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("command", ["up", "proxy", "upstream", "explain", "replay"])
def test_help_of_every_command_ends_with_success(command: str, start: Start) -> None:
    running = start(command, "--help")
    assert running.process.wait(60) == 0
    assert command in running.stdout
