import struct
import sys
from pathlib import Path

import pytest

from bench.speed import plots
from bench.speed.results import Plot
from tests.support.missing import missing

_PLOT = Plot("one", "Title", "x", "y", {"a": [(1, 2), (10, 3)], "b": [(1, 4)]})


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_plot_is_a_picture_of_its_own_name(tmp_path: Path, *, logarithmic: bool) -> None:
    if not plots.available():
        missing("matplotlib", "install what requirements-dev.lock lists")
    plots.draw([Plot(_PLOT.name, _PLOT.title, _PLOT.x, _PLOT.y, _PLOT.lines, logarithmic=logarithmic)], tmp_path)
    picture = (tmp_path / "one.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > height > 300


def test_where_the_library_is_not_there_plots_are_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not plots.available()
