import argparse

import pytest

from bench.arguments import BAD, Parser, told


def _parser() -> Parser:
    parser = Parser(prog="deltawire some", allow_abbrev=False)
    parser.add_argument("--number", type=int)
    return parser


def test_what_is_right_is_run() -> None:
    assert told(_parser(), ["--number", "7"], lambda given: int(given.number)) == 7


@pytest.mark.parametrize("words", [["--number", "x"], ["--other"], ["more"]])
def test_what_is_wrong_is_one_line_and_nothing_runs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def never(_: argparse.Namespace) -> int:
        raise AssertionError

    assert told(_parser(), words, never) == BAD
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("deltawire some: ")
