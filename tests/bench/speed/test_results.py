import pytest

from bench.speed.results import Cell, Finding, Plot, Section, Table, markdown, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (1234567, "1,234,567"), (3, "3"), (1234.5, "1,234"), (12.345, "12.3"), (0.012345, "0.0123")],
)
def test_numbers_are_shown_to_three_digits(value: Cell, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("found", "at_least", "held"), [(2, True, True), (1, True, False), (2, False, True), (3, False, False)]
)
def test_a_claim_holds_or_not(found: float, *, at_least: bool, held: bool) -> None:
    assert Finding("x", 2, found, at_least=at_least).held is held


_SECTION = Section(
    "One",
    ("Words.",),
    (Table("T", ("a", "b, ms"), (("x", 1.5),)),),
    (Plot("file", "What it shows", "x", "y", {"line": [(1, 2)]}),),
    (Finding("it is fast", 2, 1), Finding("it is small", 2, 1, at_least=False)),
)


def test_a_report_has_words_findings_tables_and_pictures() -> None:
    text = markdown("Measured", ["Preface."], [_SECTION], plotted=True)
    assert text.startswith("# Measured\n\nPreface.\n\n## One\n\nWords.\n\n")
    assert "| it is fast | at least 2 | 1 | **no** |\n| it is small | at most 2 | 1 | yes |\n" in text
    assert "**T**\n\n| a | b, ms |\n| --- | --- |\n| x | 1.5 |\n" in text
    assert text.endswith("\n![What it shows](file.png)\n")


def test_without_plots_no_picture_is_named() -> None:
    assert "png" not in markdown("Measured", [], [_SECTION], plotted=False)
