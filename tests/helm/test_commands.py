"""What the containers run, run as plain processes on loopback: the same arguments and environment, other addresses."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.helm.chart import ROOT, Helm, environment, ours
from tests.helm.test_client import client
from tests.helm.test_compose import interpolated, services
from tests.helm.test_options import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.redis import RedisServer

START_SECONDS = 30
WORDS = {"proxy": ("proxy", "admin"), "upstream": ("upstream", "upstream-admin")}


@contextmanager
def running(command: str, variables: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The process and where it listens, by the name it says. Ended by SIGTERM, which it must take for an orderly end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DELTAWIRE_")} | dict(variables)
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy.cli", command],
        env=env,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, addresses(process.stdout, WORDS[command])
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def addresses(output: IO[str], names: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    while set(found) != set(names):
        line = output.readline()
        assert line, "it ended before it was ready"
        if match := re.match(r"deltawire ([\w-]+) listening on (http://\S+)", line):
            found[match[1]] = match[2]
    return found


def status(base: str, path: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def on_loopback(variables: Mapping[str, Any], **others: str) -> dict[str, str]:
    """The plain variables, listening on any free port of this machine."""
    plain = {name: value for name, value in variables.items() if isinstance(value, str)}
    free = {name: "127.0.0.1:0" for name in ("DELTAWIRE_LISTEN", "DELTAWIRE_ADMIN") if name in plain}
    return plain | free | others


@pytest.mark.parametrize("command", WORDS)
def test_the_help_names_the_variable_of_every_option(command: str) -> None:
    """An operator reads `--help`; the chart is held against the table that it comes from."""
    run = subprocess.run(
        [sys.executable, "-m", "proxy.cli", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )
    assert set(re.findall(r"\((DELTAWIRE_[A-Z_]+)", run.stdout)) == {one.environment for one in COMMANDS[command]}


def two_turns(base_url: str) -> list[dict[str, Any]]:
    """A conversation of the example client: what it logs."""
    history: list[dict[str, Any]] = [{"role": "user", "content": "one"}]
    first, output = client.turn(base_url, "", "sim", history)
    second, _ = client.turn(base_url, "", "sim", [*history, *output, {"role": "user", "content": "two"}])
    return [first, second]


TRAVELLED = [
    {"status": 200, "transport": "full", "reason": "first_turn"},
    {"status": 200, "transport": "delta"},
]


@pytest.mark.helm
def test_the_example_of_the_chart_talks_and_its_probes_answer(newest_helm: Helm) -> None:
    found = {one["args"][0]: one for one in ours(newest_helm.case("example"))}
    with running("upstream", on_loopback(environment(found["upstream"]))) as (_, server):
        upstream = server["upstream"] + "/v1"
        variables = on_loopback(environment(found["proxy"]), DELTAWIRE_UPSTREAM=upstream)
        with running("proxy", variables) as (_, sidecar):
            for command, base in (("upstream", server["upstream-admin"]), ("proxy", sidecar["admin"])):
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    assert status(base, found[command][probe]["httpGet"]["path"]) == http.HTTPStatus.OK
                assert status(base, "/metrics") == http.HTTPStatus.OK
            assert two_turns(sidecar["proxy"] + "/v1") == TRAVELLED


@pytest.mark.redis
def test_the_services_of_compose_talk_with_heads_in_redis(fresh_redis: RedisServer) -> None:
    described = {
        name: {key: interpolated(value, {"DELTAWIRE_SECRET": "a" * 32}) for key, value in one["environment"].items()}
        for name, one in services().items()
        if "environment" in one
    }
    with running("upstream", on_loopback(described["server"])) as (_, server):
        others = {"DELTAWIRE_UPSTREAM": server["upstream"] + "/v1", "DELTAWIRE_STATE": fresh_redis.url}
        with running("proxy", on_loopback(described["sidecar"], **others)) as (_, sidecar):
            assert status(sidecar["admin"], "/readyz") == http.HTTPStatus.OK
            assert two_turns(sidecar["proxy"] + "/v1") == TRAVELLED
