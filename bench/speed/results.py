"""What was measured, as values: sections of tables, plots and findings, and their Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns. Units stand in the columns' names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines of points. The file is `name` with its format's suffix."""

    name: str
    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]]
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim beside what was measured in this run."""

    claim: str
    wanted: float
    found: float
    at_least: bool = True
    """Otherwise at most."""

    @property
    def held(self) -> bool:
        """Whether the claim held."""
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted


@dataclass(frozen=True, slots=True)
class Section:
    """One measurement: what was done in words, and what came of it."""

    title: str
    about: tuple[str, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...] = ()
    findings: tuple[Finding, ...] = ()


def markdown(title: str, preface: Sequence[str], sections: Iterable[Section], *, plotted: bool) -> str:
    """The report. Without `plotted` it names no pictures."""
    lines = [f"# {title}", *(f"\n{text}" for text in preface)]
    for section in sections:
        lines += [f"\n## {section.title}", *(f"\n{text}" for text in section.about)]
        if section.findings:
            lines += ["", *_table(("claim", "wanted", "found", ""), map(_finding, section.findings))]
        for table in section.tables:
            lines += [f"\n**{table.title}**", "", *_table(table.columns, (map(shown, row) for row in table.rows))]
        if plotted:
            lines += [f"\n![{plot.title}]({plot.name}.png)" for plot in section.plots]
    return "\n".join(lines) + "\n"


def shown(value: Cell) -> str:
    """A number to three digits, large ones in groups; text as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:  # noqa: PLR2004 - three digits
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _finding(finding: Finding) -> list[str]:
    bound = "at least" if finding.at_least else "at most"
    return [
        finding.claim,
        f"{bound} {shown(finding.wanted)}",
        shown(finding.found),
        "yes" if finding.held else "**no**",
    ]


def _table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    return [_line(columns), _line("---" for _ in columns), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
