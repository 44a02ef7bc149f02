"""Suites that others wrote, against the shipped server: what does not pass is written down here, and nothing else may fail.

`make suites` runs them; they are no part of the other tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.e2e.echo import echo
from tests.e2e.openapi import document
from tests.e2e.sidecar import Server
from tests.support import suites
from tests.support.fetch import Unavailable
from tests.support.missing import missing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.e2e.sidecar import Start

pytestmark = pytest.mark.suites

CASES = 247
READ_WHOLE = "a message is judged once, when it is read, not at its first bad byte"
WEBSOCKET_EXCEPTIONS = {
    "7.9.5": ("FAILED", "the library takes a close frame with 1006 for a code that it knows and answers with its own"),
    **{f"6.4.{number}": ("NON-STRICT", READ_WHOLE) for number in range(1, 5)},
}

MODEL = "Missing required parameter: 'model'."
CONVERSATION = "Unsupported parameter: 'conversation'."
UNKNOWN = re.compile(r"Response with id '\w+' not found\.")
PARENT = re.compile(r"Previous response with id '\w+' not found\.")
_FORMS = ("method", "raw_response", "streaming_response")
_BY_ID = ("retrieve_overload_1", "retrieve_overload_2", "delete", "cancel", "list")
_BY_ID_WITH_ALL = ("retrieve_with_all_params_overload_1", "retrieve_with_all_params_overload_2", "list_with_all_params")
SDK_EXCEPTIONS: dict[str, str | re.Pattern[str]] = {
    # A turn needs a model, and these send none.
    **{f"test_{form}_create_overload_{number}": MODEL for form in _FORMS for number in (1, 2)},
    # Conversations are refused, as is one beside a previous response.
    **{f"test_method_create_with_all_params_overload_{number}": CONVERSATION for number in (1, 2)},
    "test_method_count_with_all_params": CONVERSATION,
    # The ids are made up.
    **{f"test_{form}_{name}": UNKNOWN for form in _FORMS for name in _BY_ID},
    **{f"test_method_{name}": UNKNOWN for name in _BY_ID_WITH_ALL},
    "test_method_compact_with_all_params": PARENT,
}
"""By test of the SDK: what it is refused with. The tests were made for a mock that answers anything."""
_OUTPUT = {"system-out", "system-err", "properties"}
VARIANTS = 5
"""Of each test: loose and strict, synchronous or not, and over aiohttp."""

CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"
EXAMPLES = 50


@pytest.fixture(scope="module")
def programs() -> Path:
    try:
        return suites.environment()
    except Unavailable as gone:
        missing(gone.what, gone.how)


def _run(programs: Path, *command: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """What a program said; its exit code says only that something failed, which is looked for elsewhere."""
    done = subprocess.run(
        [str(programs / command[0]), *command[1:]],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=suites.SECONDS,
    )
    assert done.returncode in {0, 1}, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


async def test_kosoku_finds_the_written_exceptions_to_the_websocket_protocol_and_no_others(
    programs: Path, tmp_path: Path
) -> None:
    app = web.Application()
    app.router.add_get("/v1/responses", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"127.0.0.1:{runner.addresses[0][1]}/v1/responses"
        left_out = [word for one in ("9.*", "12.*", "13.*") for word in ("-x", one)]  # sizes and speeds, not rules
        command = ("kosoku", "-m", "fuzzingclient", "-p", "8", *left_out, "-o", "reports", address)
        await asyncio.to_thread(_run, programs, *command, cwd=tmp_path)
    finally:
        await runner.cleanup()
    (cases,) = json.loads((tmp_path / "reports" / "index.json").read_text()).values()

    found = {name: case["behavior"] for name, case in cases.items() if case["behavior"] not in {"OK", "INFORMATIONAL"}}
    assert len(cases) == CASES
    assert found == {name: behavior for name, (behavior, _) in WEBSOCKET_EXCEPTIONS.items()}


def test_the_sdk_passes_its_own_tests_but_for_the_written_exceptions(
    programs: Path, start: Start, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    options = ("-o", "addopts=", "-q", "--tb=line", "-p", "no:cacheprovider", f"--junit-xml={report}")
    chosen = ("tests/api_resources/test_responses.py", "tests/api_resources/responses")
    env = {"TEST_API_BASE_URL": Server(start).base_url}
    _run(programs, "python", "-m", "pytest", *options, *chosen, cwd=suites.sdk_tests(), env=env)

    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - our own test runner wrote it
    wrong: list[str] = []
    failed = 0
    for case in cases:
        name = case.attrib["name"]
        expected = SDK_EXCEPTIONS.get(name.partition("[")[0])
        told = "\n".join(f"{one.tag}: {one.attrib.get('message')}" for one in case if one.tag not in _OUTPUT)
        failed += expected is not None
        if not (told == "" if expected is None else re.search(expected, told)):
            wrong.append(f"{case.attrib['classname']}::{name} {told or 'passed'}")
    assert not wrong
    assert failed == VARIANTS * len(SDK_EXCEPTIONS)
    assert len(cases) > failed


def test_schemathesis_finds_neither_a_server_error_nor_an_answer_of_another_type_nor_an_error_of_another_shape(
    programs: Path, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(document()))
    server = Server(start)
    options = ("--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES))
    more = ("--generation-deterministic", "--continue-on-failure", "--no-color", "--header", "Authorization: Bearer k")
    said = _run(
        programs, "schemathesis", "run", "openapi.json", "--url", server.base_url, *options, *more, cwd=tmp_path
    )

    assert re.search(r"^ +Tested: 9$", said, re.MULTILINE), said[-3000:]
    assert re.search(r"^ +(\d{4,}) generated, \1 passed$", said, re.MULTILINE), said[-6000:]
    assert not [record for record in server.command.records() if record["level"] == "error"]
