"""What a Harmony model (gpt-oss) writes, read into parts as it streams.

An answer is messages, `HEADER <|message|> BODY` and an end, the first header begun by the prompt. A header names a
channel, and whom the message is for: `functions.NAME` is a call whatever the channel; else `analysis` is reasoning and
all else is text, for the user to read. Models write the recipient before or behind the channel, with or without spaces.

    header --<|message|>--> body --<|end|>, <|call|>--> header         <|return|> in either, or a header in another
    body --<|start|>--> header (an end was forgotten)                   role's name, ends the answer: all later is void

A header that never comes to its `<|message|>` was none: what is written there is text. An item has the tokens that it
was written with only where these have the form of what it is: anything else would stay odd in the history for ever.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from upstream.engine import Delta, Part, Start
from upstream.engines.calls import start_of
from upstream.engines.reader import Spelling
from upstream.engines.writing import Writing
from upstream.templates.harmony import (
    ANALYSIS,
    CALL,
    CHANNEL,
    COMMENTARY,
    CONSTRAIN,
    CONTROLS,
    END,
    FINAL,
    FUNCTIONS,
    MESSAGE,
    RETURN,
    START,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from upstream.stages.resolve import Tool
    from upstream.tokens.vocabulary import Vocabulary

STOPS = (RETURN, CALL)
"""What ends generation: an answer, and a call whose output the model waits for."""
_ROLE = "assistant"
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"\s*([a-z]*)")
_CHANNELS = {ANALYSIS, COMMENTARY, FINAL}
_FUNCTIONS = f"{FUNCTIONS}."
_MAX_HEADER = 64
"""Tokens of a header; real ones have about a dozen, a function's name the most of them."""


class _Header:
    """A header while it is written: its role, its channel, and what stands behind `<|constrain|>`."""

    def __init__(self, vocabulary: Vocabulary, *, begun: bool) -> None:
        self._spelling = Spelling(vocabulary)
        self._begun = begun
        """Whether the model began it itself, with `<|start|>`."""
        self._parts = {"": "", CHANNEL: "", CONSTRAIN: ""}
        self._at = ""
        self.tokens = 0
        self.is_regular = False
        """Whether it has the form of what it begins."""

    def feed(self, token: int, control: str) -> None:
        self.tokens += 1
        if control in {CHANNEL, CONSTRAIN}:
            self._parts[self._at] += self._spelling.rest()
            self._at = control
        else:
            self._parts[self._at] += self._spelling.feed(token)

    def is_others(self) -> bool:
        """Whether it begins somebody else's message."""
        role = self._parts[""].partition("to=")[0].strip()
        return self._begun and not role.startswith(_ROLE) and role != ""

    def start(self, tools: Mapping[str, Tool]) -> Start:
        found = _RECIPIENT.search(self._parts[""]) or _RECIPIENT.search(self._parts[CHANNEL])
        recipient = found[1] if found else ""
        name = recipient.removeprefix(_FUNCTIONS)
        is_call = name != "" and (name != recipient or name in tools)
        self.is_regular = self._channel() in _CHANNELS and is_call == (recipient != "")
        if is_call:
            return start_of(tools, name)
        return Start("reasoning" if self._channel() == ANALYSIS else "message")

    def text(self) -> str:
        """What is written in a header that is none."""
        role, channel = self._parts[""], self._parts[CHANNEL]
        if self._begun:
            role = role.removeprefix(_ROLE)
        if self._channel() in _CHANNELS:
            channel = _CHANNEL.sub("", channel, count=1)
        return (role + channel + self._parts[CONSTRAIN] + self._spelling.rest()).lstrip()

    def _channel(self) -> str:
        found = _CHANNEL.match(self._parts[CHANNEL])
        return found[1] if found else ""


class Harmony:
    """Reader of one answer. `tools` are those on offer, by the names that the model knows them by."""

    def __init__(self, vocabulary: Vocabulary, tools: Mapping[str, Tool], tail: bytes = b"") -> None:
        self._vocabulary, self._tools = vocabulary, tools
        self._control = {vocabulary.special(name): name for name in CONTROLS}
        self._header = _Header(vocabulary, begun=False)
        self._body: Writing | None = None
        self._written = array("I", tail)
        """Tokens since the last item."""
        self._done = False
        self._reasoning_tokens = 0

    @property
    def reasoning_tokens(self) -> int:
        """Tokens so far whose text is reasoning."""
        return self._reasoning_tokens

    def feed(self, tokens: Iterable[int]) -> Iterator[Part]:
        """Parts that these tokens complete."""
        for token in tokens:
            for part in self._fed(token, self._control.get(token, "")):
                if isinstance(part, Delta) and self._body is not None and self._body.start.kind == "reasoning":
                    self._reasoning_tokens += part.tokens
                yield part

    def end(self, *, cut: bool = False) -> Iterator[Part]:
        """Parts at the end; the running item of an answer that is `cut` does not end."""
        if not self._done:
            yield from self._ended(cut=cut)
            self._done = True

    def _fed(self, token: int, control: str) -> Iterator[Part]:
        if self._done:
            return
        if control == START:
            yield from self._ended()
        self._written.append(token)
        if control in {END, CALL, RETURN}:
            yield from self._ended(is_whole=True)
        if control in {START, END, CALL, RETURN}:
            self._header = _Header(self._vocabulary, begun=control == START)
            if control == RETURN:
                self._done = True
        elif self._body is not None:
            yield from self._body.feed(token)
        elif control == MESSAGE:
            self._done = self._header.is_others()
            if not self._done:
                yield from self._begun(self._header.start(self._tools))
        else:
            self._header.feed(token, control)
            if self._header.tokens > _MAX_HEADER:
                yield from self._as_text()
                self._header = _Header(self._vocabulary, begun=False)

    def _begun(self, start: Start) -> Iterator[Part]:
        self._body = Writing(start, self._vocabulary)
        yield from self._body.begin()

    def _as_text(self) -> Iterator[Part]:
        """The header was none: it is the beginning of a text."""
        self._done = self._header.is_others()
        if not self._done and (text := self._header.text()):
            yield from self._begun(Start("message"))
            if self._body is not None:
                yield from self._body.write(text)

    def _ended(self, *, is_whole: bool = False, cut: bool = False) -> Iterator[Part]:
        if self._body is None:
            yield from self._as_text()
        if self._body is not None:
            written = self._written.tobytes() if is_whole and self._header.is_regular else b""
            yield from self._body.end(written, cut=cut)
            self._body = None
            del self._written[:]
