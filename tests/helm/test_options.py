"""The chart and the commands speak of the same options: whatever values.schema.json lets through, the command takes."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from proxy.commands import LOG_LEVEL, PROXY, UPSTREAM
from proxy.options import Option
from tests.helm.chart import CASES, CHART, Helm, environment, ours
from tests.helm.test_compose import services

COMMANDS = {"proxy": (*PROXY, LOG_LEVEL), "upstream": (*UPSTREAM, LOG_LEVEL)}
SECTIONS = {"proxy": "proxy", "upstream": "server"}
OWN = {
    "proxy": {"listen", "admin", "upstream", "state", "secret", "drain"},
    "upstream": {"listen", "admin", "engine", "store", "secret", "drain"},
}
"""What has a value of its own in the chart."""
POOL = [
    *("", "0", "1", "-1", "256", "0.5", "1e3", "many", "off", "on", "true"),
    *("auto", "full", "http", "link", "exact", "lenient", "debug", "info", "trace", "sim", "local", "vllm:http://vllm:8000", "sglang:http://sglang:30000", "sglang:", "vllm:vllm"),
    *("llamacpp:http://llama:8080", "chat:http://vllm:8000/v1", "chat:https://[::1]:1/v1", "chat:", "chat:vllm", "chat:https://a/v1?b", "http:http://a"),
    *("55m", "30s", "250ms", "1.5h", "0.25s", "0s", "0.0m", "2d", "m", "1 h", "00s", "-5s"),
    *("64MiB", "1GiB", "1KiB", "0MiB", "128MB", "1.5GiB", "MiB", "1024"),
    *("x-team", "x-team, x-user", "x team", "a,b", ",", "a:b", "envelope", "envelope,context", "none", "websocket", "harmony", "chatml", "qwen3", "/etc/tokenizer.json", "openai", "open-responses"),
    *("https://api.example/v1", "http://[::1]:8788/v1", "http://server:8788/v1", "https://:443/v1", "wss://a/v1", "https://u:p@a/v1"),
    *("https://a/v1?b=c", "https://a/#b", "https://", "api.example/v1"),
    *(0, 1, -1, 256, 1_000_000, 0.5, 0.0, 20.0, True),
]  # fmt: skip


@functools.cache
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return loaded


def allowed(part: dict[str, Any], value: object) -> bool:
    return bool(jsonschema.Draft7Validator({**part, "definitions": schema()["definitions"]}).is_valid(value))


def rendered(value: object) -> str:
    """As the chart writes it into a variable."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def taken(option: Option, text: str) -> bool:
    try:
        option.read(text)
    except ValueError:
        return False
    return bool(text)  # an empty variable counts as none


@pytest.mark.parametrize("command", COMMANDS)
def test_the_chart_takes_every_option_of_the_command_and_no_other(command: str) -> None:
    in_chart = set(schema()["properties"][SECTIONS[command]]["properties"]["options"]["properties"])
    of_command = {option.name for option in COMMANDS[command]}
    assert in_chart | OWN[command] == of_command, "values.schema.json lists the options of the commands"
    assert not in_chart & OWN[command]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (command, option)
        for command, options in COMMANDS.items()
        for option in options
        if option.name not in OWN[command]
    ],
    ids=lambda value: value.name if isinstance(value, Option) else value,
)
def test_whatever_the_schema_lets_through_the_command_takes(command: str, option: Option) -> None:
    part = schema()["properties"][SECTIONS[command]]["properties"]["options"]["properties"][option.name]
    passing = [value for value in POOL if allowed(part, value)]
    assert passing, "the pool has a value for every option"
    assert [value for value in passing if not taken(option, rendered(value))] == []


@pytest.mark.parametrize(("command", "name"), [("proxy", "upstream"), ("upstream", "engine")])
def test_values_of_their_own_follow_the_same_rule(command: str, name: str) -> None:
    (option,) = (one for one in COMMANDS[command] if one.name == name)
    part = schema()["properties"][SECTIONS[command]]["properties"][name]
    passing = [value for value in POOL if value != "" and allowed(part, value)]
    assert passing == [value for value in POOL if isinstance(value, str) and taken(option, value)]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "[::]", "localhost", "::1", "", "*"])  # noqa: S104 (a value)
def test_addresses_follow_the_same_rule(host: str) -> None:
    (option,) = (one for one in PROXY if one.name == "listen")
    if allowed({"$ref": "#/definitions/socket"}, {"host": host, "port": 8787}):
        assert taken(option, f"{host}:8787")


@pytest.mark.helm
@pytest.mark.parametrize("case", CASES)
def test_every_variable_in_the_chart_is_read_by_its_command(newest_helm: Helm, case: str) -> None:
    for container in ours(newest_helm.case(case)):
        options = {option.environment: option for option in COMMANDS[container["args"][0]]}
        for name, value in environment(container).items():
            if name.startswith("DELTAWIRE_"):
                assert name in options
                assert not isinstance(value, str) or taken(options[name], value), name


@pytest.mark.parametrize(("name", "command"), [("server", "upstream"), ("sidecar", "proxy")])
def test_every_variable_in_compose_is_an_option_of_its_command(name: str, command: str) -> None:
    assert set(services()[name]["environment"]) <= {option.environment for option in COMMANDS[command]}
