import pytest

from bench.speed import overhead
from bench.speed.hops import DIRECT, NAIVE, SIDECAR
from bench.speed.overhead import Sample, section


def _medians(**added: tuple[float, float]) -> overhead.Medians:
    """By size, milliseconds that the naive hop and the sidecar add to a direct turn of one."""
    found = {}
    for size, (naive, sidecar) in added.items():
        number = int(size.removeprefix("s"))
        found[number, DIRECT] = Sample(0.001, 0.0)
        found[number, NAIVE] = Sample(0.001 + naive / 1e3, 0.0005)
        found[number, SIDECAR] = Sample(0.001 + sidecar / 1e3, 0.0007)
    return found


def test_what_is_added_is_the_difference_to_the_direct_way() -> None:
    made = section(_medians(s100000=(2, 3), s4000000=(10, 5)))
    (table,) = made.tables
    assert table.rows[0] == ("100", DIRECT, 1.0, "", "")
    assert table.rows[2][:2] == ("100", SIDECAR)
    assert table.rows[2][2:] == pytest.approx((4.0, 3.0, 0.7))
    assert [round(y, 9) for _, y in made.plots[0].lines[NAIVE]] == [2, 10]


def test_claims_are_by_size_and_by_growth() -> None:
    made = section(_medians(s100000=(2, 3), s4000000=(10, 5)))
    assert [(finding.wanted, round(finding.found, 3), finding.held) for finding in made.findings] == [
        (1.5, 1.5, True),
        (1.2, 0.5, True),
        (1.0, 0.25, True),
    ]


def test_a_plot_of_logarithms_has_no_negative_points() -> None:
    assert section(_medians(s100000=(2, 3), s4000000=(2, 3))).plots[0].logarithmic
    assert not section(_medians(s100000=(2, -1), s4000000=(2, 3))).plots[0].logarithmic


async def test_it_measures_every_hop_at_every_size() -> None:
    made = await overhead.measured(sizes=(5000, 9000), rounds=2)
    (table,) = made.tables
    assert {row[0] for row in table.rows} == {"5", "9"}
    assert {DIRECT, NAIVE, SIDECAR} <= {row[1] for row in table.rows}
