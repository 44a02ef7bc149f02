"""What a replay found, as values, as a table and as JSON. No content of the recording is in it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.differences import EXPLAINED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.differences import Difference


@dataclass(frozen=True, slots=True)
class TurnReport:
    """One turn over HTTP. Sizes are bytes of the request bodies on the wire."""

    n: int
    transport: str
    reason: str
    possible_after: int | None
    """The turn that it could have continued by the oracle; None when there was none."""
    why_not: str
    client_bytes: int
    upstream_bytes: int

    @property
    def missed(self) -> bool:
        """Whether it could have been a delta and was none."""
        return self.possible_after is not None and self.transport != "delta"

    @property
    def unforeseen(self) -> bool:
        """Whether it was a delta though the oracle saw nothing to continue."""
        return self.possible_after is None and self.transport == "delta"


@dataclass(slots=True)
class Report:
    """One recording, replayed."""

    trace: str
    turns: list[TurnReport] = field(default_factory=list)
    messages: int = 0
    """Turns of the client's own WebSocket conversations."""
    missed: dict[int, str] = field(default_factory=dict)
    """Turns that could have been deltas and were none: the explanation, empty when there is none."""
    context_errors: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the model saw what was sent, the client what was answered, and no delta was missed for nothing."""
        return not self.context_errors and not self.visible and all(self.missed.values())

    @property
    def visible(self) -> list[Difference]:
        """Differences that nothing explains."""
        return [difference for difference in self.differences if difference.kind not in EXPLAINED]

    def count(self, transport: str) -> int:
        """Turns that went this way."""
        return sum(turn.transport == transport for turn in self.turns)

    @property
    def reasons(self) -> dict[str, int]:
        """Turns that were no delta, by the reason that the sidecar gave."""
        return dict(sorted(Counter(turn.reason for turn in self.turns if turn.transport != "delta").items()))

    def as_json(self) -> dict[str, Any]:
        """The report with its sums, ready for JSON."""
        return dataclasses.asdict(self) | {
            "ok": self.ok,
            "deltas": self.count("delta"),
            "fulls": self.count("full"),
            "http": self.count("http"),
            "possible": sum(turn.possible_after is not None for turn in self.turns),
            "reasons": self.reasons,
            "client_bytes": sum(turn.client_bytes for turn in self.turns),
            "upstream_bytes": sum(turn.upstream_bytes for turn in self.turns),
        }


COLUMNS = (
    "client",
    "traces",
    "turns",
    "deltas",
    "possible",
    "full",
    "http",
    "WebSocket messages",
    "missed",
    "unforeseen",
    "context errors",
    "visible differences",
    "explained differences",
    "client bytes",
    "upstream bytes",
    "saved",
)


def markdown(reports: Sequence[Report]) -> str:
    """A row per client and a sum, then what went wrong, then why turns were no deltas, then notes."""
    clients: dict[str, list[Report]] = {}
    for report in reports:
        clients.setdefault(report.trace.partition("/")[0], []).append(report)
    rows = [_row(client, own) for client, own in sorted(clients.items())] + [_row("all", reports)]
    lines = [_line(COLUMNS), _line(["---"] + ["---:"] * (len(COLUMNS) - 1)), *map(_line, rows)]
    lines += _section("Faults", (fault for report in reports for fault in faults(report)))
    lines += _section("Explained", (text for report in reports for text in explained(report)))
    reasons = sum((Counter(report.reasons) for report in reports), Counter[str]())
    lines += _section("Reasons of turns that were no delta", (f"`{name}`: {reasons[name]}" for name in sorted(reasons)))
    lines += _section("Notes", (f"{report.trace}: {note}" for report in reports for note in report.notes))
    return "\n".join(lines) + "\n"


def faults(report: Report) -> Iterable[str]:
    """Everything that makes a report not ok, one line each."""
    yield from (f"{report.trace}: context: {error}" for error in report.context_errors)
    yield from (f"{report.trace}: visible: {difference}" for difference in report.visible)
    by_number = {turn.n: turn for turn in report.turns}
    for n, explanation in report.missed.items():
        if not explanation:
            turn = by_number[n]
            yield (
                f"{report.trace}: turn {n} could have continued turn {turn.possible_after}, "
                f"went {turn.transport} ({turn.reason})"
            )


def explained(report: Report) -> Iterable[str]:
    """Everything that differs for a reason, one line each."""
    for difference in report.differences:
        if difference.kind in EXPLAINED:
            yield f"{report.trace}: turn {difference.n}: {EXPLAINED[difference.kind]}"
    for n, explanation in report.missed.items():
        if explanation:
            yield f"{report.trace}: turn {n} was no delta: {explanation}"


def _row(name: str, reports: Sequence[Report]) -> list[str]:
    turns = [turn for report in reports for turn in report.turns]
    client, upstream = sum(turn.client_bytes for turn in turns), sum(turn.upstream_bytes for turn in turns)
    numbers = [
        len(reports),
        len(turns),
        sum(report.count("delta") for report in reports),
        sum(turn.possible_after is not None for turn in turns),
        sum(report.count("full") for report in reports),
        sum(report.count("http") for report in reports),
        sum(report.messages for report in reports),
        sum(turn.missed for turn in turns),
        sum(turn.unforeseen for turn in turns),
        sum(len(report.context_errors) for report in reports),
        sum(len(report.visible) for report in reports),
        sum(len(report.differences) - len(report.visible) for report in reports),
        client,
        upstream,
    ]
    return [name, *map(str, numbers), f"{1 - upstream / client:.0%}" if client else ""]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = [f"- {line}" for line in lines]
    return ["", f"**{title}**", "", *found] if found else []
