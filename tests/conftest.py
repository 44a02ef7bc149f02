"""Fixtures for every test, and the rule that in CI nothing is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from tests.support import fetch
from tests.support.missing import REQUIRE_ALL, all_required, missing
from tests.support.redis import RedisServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

# Property tests are judged by what they find, never by how fast the machine is.
settings.register_profile("deltawire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("deltawire")

# What these assert is as much a test as what test files do, and shown as well when it fails.
pytest.register_assert_rewrite("tests.support.game", "tests.support.stores", "tests.upstream.sockets")

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long tests as well")
    parser.addoption("--suites", action="store_true", help="run suites of others as well")
    parser.addoption("--live", metavar="ENGINE", help="check a running engine, such as vllm:http://127.0.0.1:8000")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is not asked for by its option is not part of the run: deselected and counted as such, not skipped."""
    unasked = [name for name in ("soak", "suites", "live") if not config.getoption(f"--{name}")]
    left = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is required, a skip from anywhere is a failure that says why."""
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that skips itself counts as well."""
    return _no_skip((yield))


def _no_skip(report: _Report) -> _Report:
    if report.skipped and not hasattr(report, "wasxfail") and all_required():
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"{reason} ({REQUIRE_ALL} is set: nothing may be skipped)"
    return report


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A real Redis for the whole run. A test that stops it starts it again; `fresh_redis` makes sure."""
    try:
        binary = fetch.redis_binary()
    except fetch.Unavailable as gone:
        missing(gone.what, gone.how)
    server = RedisServer(binary, tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def fresh_redis(redis_server: RedisServer) -> RedisServer:
    """The real Redis, running and empty."""
    redis_server.start()
    redis_server.flush()
    return redis_server


@pytest.fixture(scope="session")
def node_clients() -> Path:
    """The folder with the pinned Node clients and the scripts that drive them."""
    try:
        return fetch.clients()
    except fetch.Unavailable as gone:
        missing(gone.what, gone.how)
