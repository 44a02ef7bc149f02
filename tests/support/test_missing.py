from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.fetch import ROOT
from tests.support.missing import REQUIRE_ALL, missing

if TYPE_CHECKING:
    from pathlib import Path

SKIPPING = """
import pytest
from tests.support.missing import missing

def test_that_needs_a_thing():
    missing("the thing", "buy one")

@pytest.mark.skip(reason="not today")
def test_that_skips_itself():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_that_is_expected_to_fail():
    assert False
"""
LEAVING = "import pytest\npytest.importorskip('a_module_that_nobody_has')\n"


def _run(folder: Path, require: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    (folder / "test_skipping.py").write_text(SKIPPING)
    (folder / "test_leaving.py").write_text(LEAVING)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "-ra"]
    command += ["--continue-on-collection-errors", str(folder)]
    env = {"PYTHONPATH": str(ROOT), REQUIRE_ALL: require}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_what_a_machine_lacks_is_a_skip_that_names_it(tmp_path: Path) -> None:
    done = _run(tmp_path, "0")
    assert done.returncode == 0, done.stdout
    assert "the thing is missing; buy one" in done.stdout
    assert "3 skipped, 1 xfailed" in done.stdout


def test_where_everything_is_required_every_skip_is_a_failure(tmp_path: Path) -> None:
    done = _run(tmp_path, "1")
    assert done.returncode != 0
    assert "skipped" not in done.stdout.splitlines()[-1]
    assert f"the thing is missing; buy one ({REQUIRE_ALL} is set)" in done.stdout
    assert f"({REQUIRE_ALL} is set: nothing may be skipped)" in done.stdout
    assert "a_module_that_nobody_has" in done.stdout


@pytest.mark.parametrize("value", ["", "0"])
def test_an_empty_setting_or_zero_allows_skips(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE_ALL, value)
    with pytest.raises(pytest.skip.Exception):
        missing("a thing", "get it")
