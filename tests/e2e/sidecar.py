"""Handles for the two commands under test, and what they say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client.parser import text_string_to_metric_families

from tests.support import http

if TYPE_CHECKING:
    from tests.support.commands import Command

TOOL_TURNS = 5
_ANY_PORT = "127.0.0.1:0"


class Start(Protocol):
    def __call__(self, *arguments: str) -> Command: ...


class Server:
    """The shipped server on its instant, deterministic engine."""

    def __init__(self, start: Start, *options: str, tool_turns: int = TOOL_TURNS) -> None:
        arguments = ("--engine", "sim", "--tool-turns", str(tool_turns), "--listen", _ANY_PORT, *options)
        self.command = start("upstream", *arguments)
        self.base_url = self.command.url("upstream") + "/v1"


class Sidecar:
    """A sidecar before the base URL `upstream`."""

    def __init__(self, start: Start, upstream: str, *options: str) -> None:
        self.command = start("proxy", "--upstream", upstream, "--listen", _ANY_PORT, "--admin", _ANY_PORT, *options)
        self.base_url = self.command.url("proxy") + "/v1"
        self.admin_url = self.command.url("admin")

    def turns(self) -> list[dict[str, Any]]:
        """Recent turns by the admin side."""
        turns = http.get(f"{self.admin_url}/api/turns").json()
        return turns if isinstance(turns, list) else turns["turns"]

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples that carry these labels; 0 when there is none."""
        text = http.get(f"{self.admin_url}/metrics").body.decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )
