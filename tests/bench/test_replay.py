"""Recordings of our own making through the real sidecar."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench import replay as module
from bench.child import StartFailed
from bench.replay import main, replay
from bench.report import Report
from bench.sidecar import SidecarFactory
from proxy import app
from proxy.settings import Address, ProxySettings
from tests.support import make_trace
from tests.support.make_trace import Recording
from tests.support.stand_in import StandIn

ANY = Address("127.0.0.1", 0)


@asynccontextmanager
async def real(upstream: str) -> AsyncIterator[str]:
    """The sidecar itself, in this process."""
    running = await app.start(ProxySettings(listen=ANY, admin=ANY, upstream=upstream))
    try:
        yield running.url
    finally:
        await running.close()


async def _replayed(tmp_path: Path, recording: Recording, sidecar: SidecarFactory | None = real) -> Report:
    return await replay(recording.write(tmp_path / "client" / "scenario.jsonl"), sidecar)


DELTAS = ["full", "delta", "delta", "delta", "delta"]
FULLS = ["full"] * 5
TALKS = {
    "plain loop": (make_trace.talk(), DELTAS),
    "no stream": (make_trace.talk(stream=False), DELTAS),
    "keys turned, nulls added": (make_trace.talk(make_trace.codex_like), DELTAS),
    "references": (make_trace.talk(make_trace.references, store=None), DELTAS),
    "references, no stream": (make_trace.talk(make_trace.references, store=None, stream=False), DELTAS),
    "dumped": (make_trace.talk(make_trace.dumped), DELTAS),
    "stripped": (make_trace.talk(make_trace.stripped), DELTAS),
    "compressed": (make_trace.talk(packed=True), DELTAS),
    "reasoning dropped": (make_trace.talk(make_trace.without_reasoning), FULLS),
    "side requests": (make_trace.side_requests(), ["full", "full", "full", "delta"]),
    "branch": (make_trace.branch(), ["full", "delta", "full", "delta", "delta"]),
    "branch, stored": (make_trace.branch(store=None), ["full", "delta", "delta", "delta", "delta"]),
    "compaction": (make_trace.compaction(), ["full", "delta", "full", "delta"]),
    "retry after an error": (make_trace.retry_after_500(), ["full", "delta", "delta", "full", "delta"]),
    "cut": (make_trace.cut(), ["full", "delta", "full", "delta"]),
    "cut, item kept": (make_trace.cut(keep=True), ["full", "delta", "full", "delta"]),
    "own state": (make_trace.own_state(), ["full", "http"]),
}


@pytest.mark.parametrize("name", TALKS)
async def test_every_possible_delta_is_one_and_nothing_else_changes(tmp_path: Path, name: str) -> None:
    recording, transports = TALKS[name]
    report = await _replayed(tmp_path, recording)
    assert (report.context_errors, report.visible, report.missed) == ([], [], {})
    assert [turn.transport for turn in report.turns] == transports
    assert not any(turn.unforeseen for turn in report.turns)
    assert all(bool(turn.reason) == (turn.transport != "delta") for turn in report.turns)


@pytest.mark.parametrize("features", [{"envelope"}, {"append"}, {"envelope", "append"}], ids=sorted)
async def test_an_upstream_that_takes_less_is_sent_less_and_sees_the_same(tmp_path: Path, features: set[str]) -> None:
    path = make_trace.talk(instructions="x" * 2000).write(tmp_path / "client" / "a.jsonl")
    plain, offered = await replay(path, real), await replay(path, real, features=features)
    assert (offered.ok, offered.count("delta")) == (True, plain.count("delta"))
    sizes = [[turn.upstream_bytes for turn in report.turns] for report in (plain, offered)]
    assert sizes[0][0] == sizes[1][0]
    assert all(less < more - 1000 for more, less in zip(sizes[0][1:], sizes[1][1:], strict=True))


# Other instructions do not block a delta to our own server, so there the side request takes the conversation's place.
@pytest.mark.parametrize("name", sorted(TALKS.keys() - {"side requests"}))
async def test_responses_that_are_resumed_look_the_same_to_every_client(tmp_path: Path, name: str) -> None:
    recording, transports = TALKS[name]
    path = recording.write(tmp_path / "client" / "a.jsonl")
    report = await replay(path, real, features={"append"})
    assert (report.context_errors, report.visible, report.missed) == ([], [], {})
    assert [turn.transport for turn in report.turns] == transports


async def test_a_cut_is_said_to_the_client_and_listed_as_explained(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.cut())
    assert [str(found) for found in report.differences] == ["turn 2 stream: cut_said"]


async def test_agents_side_by_side_each_find_their_own_conversation(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.parallel_agents(4))
    assert report.ok
    assert [turn.transport for turn in report.turns[-4:]] == ["delta"] * 4
    assert sorted(turn.transport for turn in report.turns[1:5]) == ["delta", "full", "full", "full"]


@pytest.mark.parametrize("recording", [make_trace.websocket(), make_trace.other_endpoints()])
async def test_what_is_no_turn_goes_through(tmp_path: Path, recording: Recording) -> None:
    report = await _replayed(tmp_path, recording)
    assert (report.context_errors, report.visible) == ([], [])


async def test_a_recording_of_refused_handshakes_needs_no_sidecar(tmp_path: Path) -> None:
    recording = Recording()
    recording.upgrade(1, "426")

    def never(_: str) -> StandIn:
        raise AssertionError

    report = await _replayed(tmp_path, recording, never)  # type: ignore[arg-type] # it is never entered
    assert (report.ok, report.turns) == (True, [])
    assert "nothing in it can be replayed" in report.notes[0]


def test_the_command_replays_folders_through_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_trace.talk().write(tmp_path / "traces" / "one" / "a.jsonl")
    make_trace.own_state().write(tmp_path / "traces" / "two" / "b.jsonl")
    table, values = tmp_path / "table.md", tmp_path / "values.json"
    assert main([tmp_path / "traces"], table, values) == 0
    assert table.read_text(encoding="utf-8") in capsys.readouterr().out
    reports = json.loads(values.read_text(encoding="utf-8"))
    assert [(report["trace"], report["deltas"]) for report in reports] == [("one/a", 4), ("two/b", 0)]


def test_the_command_fails_when_a_delta_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "spawned", StandIn())
    assert main([make_trace.talk().write(tmp_path / "client" / "a.jsonl")]) == 1


def test_bad_input_is_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "none").mkdir()
    for path in (tmp_path / "bad.jsonl", tmp_path / "absent.jsonl", tmp_path / "none"):
        assert main([path]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)

    def fails(_: str) -> StandIn:
        raise StartFailed("It ended without a word.")

    monkeypatch.setattr(module, "spawned", fails)
    assert main([make_trace.talk().write(tmp_path / "client" / "a.jsonl")]) == 2
    assert capsys.readouterr().err == "deltawire replay: It ended without a word.\n"


def test_a_report_that_cannot_be_written_is_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "spawned", StandIn())
    recording = make_trace.own_state().write(tmp_path / "client" / "a.jsonl")
    nowhere = tmp_path / "absent" / "report"
    for markdown, values in ((nowhere, None), (None, nowhere)):
        assert main([recording], markdown, values) == 2
        said = capsys.readouterr()
        assert "| all |" in said.out
        assert said.err == f"deltawire replay: {nowhere}: No such file or directory\n"


def test_a_file_that_is_not_there_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert module.run(["/nowhere/x.jsonl"]) == 2
    assert capsys.readouterr().err == "deltawire replay: /nowhere/x.jsonl: no such file or folder\n"
