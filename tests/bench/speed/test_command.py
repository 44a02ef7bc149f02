import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from bench.child import StartFailed
from bench.speed import command, plots
from bench.speed.results import Finding, Plot, Section, Table


async def _made(quick: bool) -> Section:  # noqa: FBT001 - called as the measurements are
    plot = Plot("lines", "Lines", "x", "y", {"a": [(1, 2)]})
    return Section("Quick" if quick else "Long", ("w",), (Table("t", ("a",), ((1,),)),), (plot,), (Finding("c", 1, 2),))


@pytest.fixture(autouse=True)
def _parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PARTS", {"one": _made, "two": _made})


def test_a_report_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["one"], None, quick=False) == 0
    said = capsys.readouterr()
    assert "## Long" in said.out
    assert "png" not in said.out
    assert "one ..." in said.err


def test_a_report_is_written_with_its_values_and_plots(tmp_path: Path) -> None:
    out = tmp_path / "made" / "here"
    assert command.main(["one", "two"], out, quick=True) == 0
    assert "A quick run" in (out / "report.md").read_text()
    assert [section["title"] for section in json.loads((out / "results.json").read_text())] == ["Quick", "Quick"]
    assert (out / "lines.png").exists() is plots.available()


def test_without_the_library_the_report_has_no_plots_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "available", lambda: False)
    assert command.main(["one"], tmp_path, quick=False) == 0
    assert "No plots: matplotlib is not installed" in (tmp_path / "report.md").read_text()
    assert not (tmp_path / "lines.png").exists()


def test_what_cannot_be_measured_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(_: bool) -> Section:  # noqa: FBT001 - called as the measurements are
        raise StartFailed("It ended without a word.")

    monkeypatch.setattr(command, "PARTS", {"one": broken})
    assert command.main(["one"], None, quick=True) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "deltawire bench: It ended without a word."


def test_a_folder_that_cannot_be_made_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert command.main(["one"], tmp_path / "file" / "x", quick=True) == 2


@pytest.mark.parametrize(("words", "made"), [([], ["one", "two"]), (["all"], ["one", "two"]), (["two"], ["two"])])
def test_all_parts_are_measured_unless_some_are_named(
    words: list[str], made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run([*words, "--quick"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == [f"deltawire bench: {name} ..." for name in made]
    assert said.out.count("## Quick") == len(made)


def test_a_part_that_there_is_not_is_said_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(["three"]) == 2
    assert capsys.readouterr().err == "deltawire bench: some of one, two, or all, are needed, not 'three'\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_all_that_it_has_started(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = []

    async def endless(_: bool) -> Section:  # noqa: FBT001 - called as the measurements are
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), number)  # a second one does not keep it from tidying up
            await asyncio.sleep(0.01)
            ended.append(True)
        raise AssertionError

    monkeypatch.setattr(command, "PARTS", {"one": endless})
    assert command.main(["one"], None, quick=False) == 130
    assert ended == [True]
    assert capsys.readouterr().err.endswith("deltawire bench: stopped\n")
