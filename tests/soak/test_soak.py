"""The soak itself, short, and that its judge sees what it is there to see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.soak.__main__ import table
from tests.soak.judge import Body, Judge, Seen
from tests.soak.run import COUNTED, Plan, Soak
from tests.soak.stage import KEY, MARKER, Arrival, Sample, Sidecar, Upstream
from tests.support.responses import user
from upstream.scripted import Turn
from upstream.scripted.context import Cache, Contexts
from wire.errors import ApiError, previous_not_found

if TYPE_CHECKING:
    from pathlib import Path

SHORT = Plan(seed=7, turns=600, on_links=400, agents=16, restart=130)


async def test_a_soak_finds_nothing_wrong_in_any_turn(tmp_path: Path) -> None:
    verdict = await Soak(SHORT, tmp_path).run()
    assert verdict.passed, table(verdict)
    assert verdict.turns >= 600
    assert verdict.faults > 30
    assert verdict.ways["delta"] > 150
    assert all(verdict.restarts.values())
    assert verdict.wrong == dict.fromkeys(COUNTED, 0)
    assert "passed" in table(verdict)


@pytest.mark.soak
async def test_a_soak_of_a_hundred_thousand_turns_finds_nothing_wrong_and_nothing_grows(tmp_path: Path) -> None:
    verdict = await Soak(Plan(seed=1, turns=100_000), tmp_path).run()
    assert verdict.passed, table(verdict)


# What the judge sees


class Court:
    """A judge before one upstream, whose turns are made by hand."""

    def __init__(self, tmp_path: Path, fault: str = "") -> None:
        self.judge = Judge()
        self.upstream = Upstream("u", seed=0, faults=0.0, own=False)
        self.sidecar = Sidecar(tmp_path, self.upstream)
        self.body = self.judge.body("tenant-1", self.upstream, {"input": [user(f"{MARKER} tenant-1")]})
        self.body.tries = 1
        self.fault = fault
        self._contexts = Contexts()
        self._count = 0

    def arrives(self, raw: bytes | None = None, tenant: str = "tenant-1", **changes: Any) -> Turn:
        """A turn reaches the upstream, and has been answered unless `changes` say otherwise."""
        self._count += 1
        headers = {"authorization": f"Bearer {KEY}{tenant}"}
        turn = Turn(self._count, "ws", 1, raw or self.body.raw, headers)
        self._contexts.open(turn, Cache())
        turn.response_id, turn.outcome, turn.events_sent = f"resp_{self._count}", "completed", 9
        for name, value in changes.items():
            setattr(turn, name, value)
        self.upstream._faults[0, self._count] = self.fault
        self.upstream._last.append(Arrival(turn, 0))
        return turn

    def judged(self, seen: Seen) -> dict[str, int]:
        """What is wrong once a client has seen this."""
        self.judge.seen(self.body, seen, 1.0, self.sidecar)
        return dict(self.judge.wrong)


def whole(body: Body, **changes: Any) -> Seen:
    return replace(
        Seen("completed", 200, response_id="resp_1", text=f"{MARKER} {body.tenant} {body.number}"), **changes
    )


def test_an_answer_that_is_the_upstreams_is_right(tmp_path: Path) -> None:
    court = Court(tmp_path)
    court.arrives()
    assert court.judged(whole(court.body)) == {}


@pytest.mark.parametrize("changes", [{"response_id": "resp_9"}, {"kind": "incomplete"}])
def test_an_answer_that_the_upstream_did_not_give_is_wrong(tmp_path: Path, changes: dict[str, Any]) -> None:
    court = Court(tmp_path)
    court.arrives()
    assert court.judged(whole(court.body, **changes)) == {"visible": 1}


def test_an_answer_with_the_text_of_another_is_wrong(tmp_path: Path) -> None:
    court = Court(tmp_path)
    court.arrives()
    assert court.judged(whole(court.body, text=f"{MARKER} tenant-2 1")) == {"tenants": 1}


def test_a_turn_with_an_item_more_or_less_is_wrong(tmp_path: Path) -> None:
    court = Court(tmp_path)
    body = json.loads(court.body.raw)
    court.arrives(json.dumps(body | {"input": body["input"] * 2}).encode())
    assert court.judged(whole(court.body)) == {"context": 1}


def test_a_turn_with_the_credentials_of_another_is_wrong(tmp_path: Path) -> None:
    court = Court(tmp_path)
    court.arrives(tenant="tenant-2")
    assert court.judged(whole(court.body)) == {"tenants": 1}


def test_items_of_another_in_a_turn_are_wrong(tmp_path: Path) -> None:
    court = Court(tmp_path)
    body = json.loads(court.body.raw)
    court.arrives(json.dumps(body | {"input": [user(f"{MARKER} tenant-2")]}).encode())
    assert court.judged(whole(court.body)) == {"context": 1, "tenants": 1}


def test_a_turn_that_is_started_twice_for_one_try_is_wrong_and_one_after_a_refusal_is_not(tmp_path: Path) -> None:
    court = Court(tmp_path)
    court.arrives(outcome="refused", error=previous_not_found("resp_0"), members={"previous_response_id": b'"resp_0"'})
    court.arrives()
    assert court.judged(whole(court.body, response_id="resp_2")) == {}
    court.arrives()
    assert court.judged(whole(court.body, response_id="resp_3")) == {"duplicates": 1}


@pytest.mark.parametrize(
    ("fault", "seen", "explained"),
    [
        ("reset-before", Seen("error", 502, "link_lost", "link_lost"), True),
        ("", Seen("error", 502, "link_lost", "link_lost"), False),
        ("rate-limited", Seen("error", 429, "slow_down"), True),
        ("rate-limited", Seen("error", 500, "slow_down"), False),
        ("overloaded", Seen("error", 200, "server_is_overloaded"), True),
        ("", Seen("error", 429, "slow_down"), False),
        ("", Seen("broken"), False),
        ("", Seen("error", 503, "upstream_refused", "upstream_refused"), False),
        ("", Seen("error", 500, "internal", "internal"), False),
        ("", Seen("left"), True),
    ],
)
def test_a_failure_needs_a_cause_at_the_upstream(tmp_path: Path, fault: str, seen: Seen, *, explained: bool) -> None:
    court = Court(tmp_path, fault)
    court.arrives(outcome="error", error=ApiError(429, "", code="slow_down"))
    assert court.judged(seen) == ({} if explained else {"visible": 1})


def test_a_restart_explains_what_breaks_off_until_shortly_after_it(tmp_path: Path) -> None:
    court = Court(tmp_path)
    court.sidecar.outages.begin()
    assert court.judged(Seen("broken")) == {}
    court.sidecar.outages.end()
    assert court.judged(Seen("error", 503, "shutting_down", "shutting_down")) == {}
    court.sidecar.outages.spans[-1][1] = 0.5
    assert court.judged(Seen("broken")) == {"visible": 1}


@pytest.mark.parametrize(
    ("outcome", "fault", "hangs"), [("running", "silent", True), ("broken", "silent", False), ("running", "", False)]
)
def test_only_a_turn_that_its_upstream_never_ends_is_given_up(
    tmp_path: Path, outcome: str, fault: str, *, hangs: bool
) -> None:
    court = Court(tmp_path, fault)
    court.arrives(outcome=outcome)
    court.arrives()
    assert court.judge.hangs(court.body) == hangs


@pytest.mark.parametrize(
    ("later", "wrong"),
    [
        (Sample(0, 5, 0, 50, 30, 80_000, 40), 0),
        (Sample(0, 5, 0, 50, 30, 120_000, 40), 1),
        (Sample(0, 20, 0, 50, 60, 80_000, 55), 0),
        (Sample(0, 5, 0, 500, 130, 80_000, 140), 3),
    ],
    ids=["nothing", "memory", "as many links as there is talk", "heads, tasks and files"],
)
def test_what_grows_from_the_second_quarter_to_the_last_is_a_leak(tmp_path: Path, later: Sample, wrong: int) -> None:
    soak = Soak(SHORT, tmp_path)
    soak._samples = [Sample(0, 5, 0, 50, 30, 80_000, 40)] * 12 + [later] * 4
    assert soak._growth()["rss"][0] == 80_000
    assert soak._judge.wrong["leaks"] == wrong
