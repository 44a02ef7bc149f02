"""`python -m tests.soak --minutes 30 --seed 1`: exit code 1 when anything went wrong."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.soak.run import Plan, Soak, Verdict


def table(verdict: Verdict) -> str:
    """The verdict for people."""
    rate = verdict.turns / max(verdict.seconds, 1e-9)
    rows = [
        ("turns", f"{verdict.turns} in {verdict.seconds:.0f} s ({rate:.0f} a second), seed {verdict.seed}"),
        ("turns at the upstreams", str(verdict.upstream_turns)),
        ("turns with a fault", f"{verdict.faults} ({100 * verdict.faults / max(verdict.upstream_turns, 1):.1f}%)"),
        ("restarts", ", ".join(f"{name}: {count}" for name, count in verdict.restarts.items())),
        ("ways", ", ".join(f"{name}: {count}" for name, count in verdict.ways.items())),
        *((f"wrong: {name}", str(count)) for name, count in verdict.wrong.items()),
        *((f"early, late {name}", str(both)) for name, both in verdict.growth.items()),
        *((f"seen: {name}", str(count)) for name, count in verdict.seen.items()),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {value}" for name, value in rows]
    return "\n".join([*lines, *verdict.shown, "passed" if verdict.passed else "FAILED"])


def main() -> int:
    """Run, and say how it was."""
    made = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__, allow_abbrev=False)
    made.add_argument("--minutes", type=float, default=30.0)
    made.add_argument("--turns", type=int, default=None, help="so many tries of turns instead of a time")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--agents", type=int, default=Plan.agents)
    made.add_argument("--faults", type=float, default=Plan.faults, help="part of the turns that have a fault")
    made.add_argument("--restart", type=int, default=Plan.restart, help="turns between two restarts")
    made.add_argument("--json", type=Path, default=None, help="file for the whole verdict")
    given = made.parse_args()
    plan = Plan(
        seed=given.seed,
        turns=given.turns,
        minutes=given.minutes,
        agents=given.agents,
        faults=given.faults,
        restart=given.restart,
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        verdict = asyncio.run(Soak(plan, Path(folder)).run())
    if given.json is not None:
        given.json.write_text(json.dumps(asdict(verdict) | {"passed": verdict.passed}, indent=1) + "\n")
    sys.stdout.write(table(verdict) + "\n")
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
