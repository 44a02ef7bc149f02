"""What SGLang holds of conversations under ids of ours, so that a turn sends it the new tokens only.

A thread is one such id. The engine keeps, for each request that ran under it, the prompt and what was written; a later
one names that request (`rid`) and from where on its own tokens stand (`offset`), and need not say what comes before.

- What is known to be there is compared token by token: an answer that was rendered otherwise than it was written, or a
  prompt that was rewritten, goes on from where both are the same.
- A first turn has no thread in the engine: it may be the only one.
- A thread belongs to one owner, and serves one turn at a time; another one beside it begins a thread of its own.
- The engine keeps all prompts of a thread whole. So a thread ends when these are too many, and the next turn is whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from upstream.engines.chains import unpacked

_TOKEN = 4
_WINDOW = 64 * _TOKEN
"""Bytes by which most conversations that have only their beginning in common are told apart."""
_COMPARED = 8
_MAX_HELD = 2**21
"""Tokens that one thread may hold in the engine, over all its turns: they are a few dozen bytes each there."""


@dataclass(slots=True, eq=False)
class Thread:
    """One conversation as the engine knows it."""

    owner: bytes = field(repr=False)
    key: str = ""
    """Its id in the engine; empty where it has none."""
    last: str = ""
    """The request that it goes on from."""
    tokens: bytes = field(default=b"", repr=False)
    """Prompt and answer of the last turn, as raw uint32."""
    held: int = 0
    """Tokens that the engine keeps for it."""
    busy: bool = False

    def is_full(self, ids: bytes) -> bool:
        """Whether it holds so much that this turn is to begin anew."""
        return self.held + len(ids) // _TOKEN > _MAX_HELD

    def begin(self, key: str) -> None:
        """It has this id in the engine now, or none any more, and the engine holds nothing for it."""
        self.key, self.last, self.held = key, "", 0

    def step(self, ids: bytes, opening: int) -> tuple[dict[str, Any], bytes]:
        """What to say of the thread with a prompt, and the tokens to send; nothing and all where it has no id.

        An engine takes the token that begins a text away where it continues one, and in some vocabularies that is the
        one that begins a message: it is never the first to be sent.
        """
        if not self.key:
            return {}, ids
        same = min(_common(self.tokens, ids), len(ids) // _TOKEN - 1) if self.last else 0
        while same > 0 and unpacked(_at(ids, same)) == [opening]:
            same -= 1
        if same <= 0:
            return {"id": self.key}, ids
        return {"id": self.key, "rid": self.last, "offset": same}, ids[same * _TOKEN :]

    def ran(self, request: str, ids: bytes, written: bytes) -> None:
        """A request has ended: the thread goes on from there."""
        self.last, self.tokens = request, ids + written
        self.held += len(self.tokens) // _TOKEN


class Threads:
    """The threads of one engine, at most this many."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._all: dict[Thread, None] = {}
        """The least recently used first."""

    def take(self, owner: bytes, ids: bytes) -> Thread:
        """The thread that holds the most of this prompt, at least half of itself; else a new one. Busy until given.

        Forks of one conversation may all hold much of it: of those that the prompt does not simply go on from, the ones
        used last are compared.
        """
        own = [one for one in reversed(self._all) if one.owner == owner and not one.busy]
        whole = [one for one in own if ids.startswith(one.tokens)]
        fitting = whole or islice((one for one in own if _fits(one.tokens, ids)), _COMPARED)
        thread = max(fitting, key=lambda one: _common(one.tokens, ids), default=Thread(owner))
        thread.busy = True
        return thread

    def give_back(self, thread: Thread) -> list[str]:
        """The turn is over. Ids that the engine may forget."""
        thread.busy = False
        self._all.pop(thread, None)
        if thread.tokens:
            self._all[thread] = None
        idle = [one for one in self._all if not one.busy]
        gone = idle[: max(0, len(self._all) - self._most)]
        for one in gone:
            del self._all[one]
        return [one.key for one in gone if one.key]

    def clear(self) -> list[str]:
        """Let go of all. Their ids."""
        keys = [one.key for one in self._all if one.key]
        self._all.clear()
        return keys


def _fits(known: bytes, ids: bytes) -> bool:
    half = len(known) // (2 * _TOKEN) * _TOKEN
    before = max(0, half - _WINDOW)
    return half > 0 and known[before:half] == ids[before:half] and ids.startswith(known[:half])


def _common(known: bytes, ids: bytes) -> int:
    """How many tokens both begin with."""
    least, most = 0, min(len(known), len(ids)) // _TOKEN
    if ids.startswith(known):
        return most
    while least < most:
        middle = (least + most + 1) // 2
        if known[least * _TOKEN : middle * _TOKEN] == ids[least * _TOKEN : middle * _TOKEN]:
            least = middle
        else:
            most = middle - 1
    return least


def _at(ids: bytes, place: int) -> bytes:
    return ids[place * _TOKEN : (place + 1) * _TOKEN]
