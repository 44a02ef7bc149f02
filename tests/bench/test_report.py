import json
from typing import Any

from bench.differences import CUT_SAID, EXPLAINED, Difference
from bench.report import COLUMNS, Report, TurnReport, explained, faults, markdown


def _turn(n: int, transport: str = "delta", reason: str = "", after: int | None = 1, **sizes: int) -> TurnReport:
    bytes_ = {"client_bytes": 100, "upstream_bytes": 20} | sizes
    return TurnReport(n, transport, reason, after, "", **bytes_)


def _report(*turns: TurnReport, **found: Any) -> Report:
    return Report("client/one", list(turns), **found)


def test_nothing_found_is_well() -> None:
    assert _report(_turn(1, "full", "first_turn", None), _turn(2)).ok


def test_anything_unexplained_is_not() -> None:
    assert not _report(context_errors=["x"]).ok
    assert not _report(differences=[Difference(1, "status", "x")]).ok
    assert not _report(_turn(2, "full"), missed={2: ""}).ok


def test_what_is_explained_is_well() -> None:
    assert _report(differences=[Difference(1, "stream", CUT_SAID)]).ok
    assert _report(_turn(2, "full", "head_busy"), missed={2: "busy"}).ok


def test_missed_and_unforeseen_are_the_two_ways_to_disagree_with_the_oracle() -> None:
    assert [_turn(1, "full").missed, _turn(1).missed, _turn(1, "http", after=None).missed] == [True, False, False]
    assert [_turn(1, after=None).unforeseen, _turn(1, "full", after=None).unforeseen] == [True, False]


def test_reasons_are_counted_for_turns_that_were_no_delta() -> None:
    report = _report(_turn(1, "full", "first_turn"), _turn(2), _turn(3, "http", "client_state"), _turn(4, "full", "x"))
    assert report.reasons == {"client_state": 1, "first_turn": 1, "x": 1}


def test_the_table_has_a_row_per_client_and_a_sum() -> None:
    other = Report("other/two", [_turn(1, "full", "first_turn", None, upstream_bytes=100)])
    lines = markdown([_report(_turn(1)), Report("client/three", [_turn(1)]), other]).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:5]]
    assert tuple(rows[0]) == COLUMNS
    assert [row[:4] for row in rows[2:]] == [
        ["client", "2", "2", "2"],
        ["other", "1", "1", "0"],
        ["all", "3", "3", "2"],
    ]
    assert [row[-1] for row in rows[2:]] == ["80%", "0%", "53%"]


def test_a_client_without_turns_saves_nothing() -> None:
    assert markdown([Report("client/empty")]).splitlines()[2].endswith("| 0 | 0 |  |")


def test_faults_are_listed_below_the_table_with_turn_and_path() -> None:
    report = _report(
        _turn(2, "full", "unknown_head"),
        missed={2: ""},
        context_errors=["turn 2 $.input: 2 items sent, 1 seen"],
        differences=[Difference(3, "event[1].delta", "differs"), Difference(4, "stream", CUT_SAID)],
    )
    assert list(faults(report)) == [
        "client/one: context: turn 2 $.input: 2 items sent, 1 seen",
        "client/one: visible: turn 3 event[1].delta: differs",
        "client/one: turn 2 could have continued turn 1, went full (unknown_head)",
    ]
    assert all(fault in markdown([report]) for fault in faults(report))


def test_what_is_explained_is_listed_with_its_explanation() -> None:
    report = _report(
        _turn(2, "full", "head_busy"),
        missed={2: "another turn ran on its head", 3: ""},
        differences=[Difference(4, "stream", CUT_SAID), Difference(5, "status", "x")],
    )
    assert list(explained(report)) == [
        f"client/one: turn 4: {EXPLAINED[CUT_SAID]}",
        "client/one: turn 2 was no delta: another turn ran on its head",
    ]


def test_json_has_the_sums_and_every_turn() -> None:
    report = json.loads(json.dumps(_report(_turn(1, "full", "first_turn", None), _turn(2), notes=["n"]).as_json()))
    assert (report["deltas"], report["fulls"], report["http"], report["possible"]) == (1, 1, 0, 1)
    assert (report["ok"], report["client_bytes"], report["upstream_bytes"]) == (True, 200, 40)
    assert [turn["n"] for turn in report["turns"]] == [1, 2]
    assert report["notes"] == ["n"]
