import pytest

from bench.speed import memory
from bench.speed.memory import Sample, section


def test_what_is_retained_is_growth_by_conversation() -> None:
    made = section([Sample(0, 50_000_000), Sample(100, 51_000_000), Sample(200, 53_000_000)], 1_000_000)
    assert made.tables[0].rows == ((100, 51.0, 10.0), (200, 53.0, 15.0))
    (finding,) = made.findings
    assert (finding.found, finding.held) == (15_000, True)


@pytest.mark.parametrize(("resident", "held"), [(56_400_000, True), (56_600_000, False)])
def test_more_than_32_kb_each_is_too_much(resident: int, *, held: bool) -> None:
    made = section([Sample(0, 50_000_000), Sample(200, resident)], 1_000_000)
    assert made.findings[0].held is held


async def test_it_leads_as_many_conversations_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SETTLED", 0.0)
    made = await memory.measured(conversations=4, history=3000)
    assert [row[0] for row in made.tables[0].rows] == [2, 4]
