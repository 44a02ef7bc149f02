"""Plots as PNG. matplotlib is an extra: without it there are none, and the report says so."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.speed.results import Plot

_SIZE = (7.0, 4.2)
_DPI = 110


def available() -> bool:
    """Whether plots can be drawn here."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(plots: Iterable[Plot], folder: Path) -> None:
    """Write each plot into the folder. Raises `ModuleNotFoundError` where they are not `available`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra, see above
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    for plot in plots:
        figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
        axes = FigureCanvasAgg(figure).figure.add_subplot()
        for name, points in plot.lines.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        if plot.logarithmic:
            axes.set_xscale("log")
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
        figure.savefig(folder / f"{plot.name}.png", metadata={"Software": None})
