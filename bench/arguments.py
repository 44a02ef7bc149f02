"""Command lines of the measurements: a bad word is one line and exit code 2, as with every command of the project."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BAD = 2
"""Exit code for what cannot be used."""


class BadWordError(Exception):
    """What is wrong with a command line, in words."""


class Parser(argparse.ArgumentParser):
    """Raises `BadWordError` where argparse would print its usage and end the process."""

    def error(self, message: str) -> NoReturn:
        """See the class."""
        raise BadWordError(f"{self.prog}: {message}")


def told(parser: Parser, words: Sequence[str], run: Callable[[argparse.Namespace], int]) -> int:
    """What `run` makes of the words, or `BAD` after a line that says what is wrong with them."""
    try:
        return run(parser.parse_args(words))
    except BadWordError as error:
        print(error, file=sys.stderr)
        return BAD
