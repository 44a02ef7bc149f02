"""A template and a vocabulary together: runs into tokens."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from upstream.templates import named
from upstream.templates.parts import merged
from upstream.tokens import vocabulary

if TYPE_CHECKING:
    from upstream.templates import parts

TOKEN: Final = array("I").itemsize
"""Bytes of a token."""


class Style(NamedTuple):
    """The template and the vocabulary, by name."""

    template: str = named.DEFAULT
    vocabulary: str = vocabulary.DEFAULT


def check(style: Style) -> None:
    """Raise `ValueError`, of one line, unless there are such a template and vocabulary, and they fit each other."""
    if style.template not in named.NAMED:
        raise ValueError(f"unknown template {style.template!r}: {', '.join(named.NAMED)}")
    for control in named.NAMED[style.template].CONTROLS:
        vocabulary.load(style.vocabulary).special(control)


def size(raw: bytes) -> int:
    """How many tokens these are."""
    return len(raw) // TOKEN


def written(style: Style, tokens: bytes) -> bytes:
    """Tokens that a model wrote of an item, as they stand in a history."""
    special = vocabulary.load(style.vocabulary).special
    return array("I", named.NAMED[style.template].written(array("I", tokens), special)).tobytes()


def encoded(style: Style, runs: parts.Segment) -> bytes:
    """Runs as tokens, native uint32."""
    known = vocabulary.load(style.vocabulary)
    return b"".join(
        array("I", (known.special(run.text),)).tobytes() if run.is_special else known.ordinary(run.text)
        for run in merged(*(_tagged(run, known) for run in runs))
    )


def _tagged(run: parts.Run, known: vocabulary.Vocabulary) -> parts.Run:
    """A tag as what it is in this vocabulary."""
    return run._replace(is_special=known.has(run.text), is_tag=False) if run.is_tag else run
