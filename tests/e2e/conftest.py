"""The sidecar and the shipped server as processes of their own, for tests with real clients."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.e2e.sidecar import Server, Sidecar, Start
from tests.support.commands import Command

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts commands; all that still run are stopped at the end of the module."""
    started: list[Command] = []
    numbers = itertools.count()

    def run(*arguments: str) -> Command:
        command = Command(tmp_path_factory.mktemp(f"{arguments[0]}-{next(numbers)}"), *arguments)
        started.append(command)
        return command

    yield run
    codes = [command.stop() for command in reversed(started) if command.running]
    assert set(codes) <= {0}


@pytest.fixture(scope="module")
def server(start: Start) -> Server:
    """A shipped server that calls a tool five times and then answers."""
    return Server(start)


@pytest.fixture(scope="module")
def sidecar(start: Start, server: Server) -> Sidecar:
    """A sidecar before that server."""
    return Sidecar(start, server.base_url)
