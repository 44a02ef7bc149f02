"""Calls that arrive in pieces, one by one or interleaved, told as parts one item after the other.

The first open call streams; the next begins once the first one's arguments are whole JSON, to which nothing can come
any more, and else waits until the end. A custom tool's input is told when it is whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from upstream.engine import Delta, End, Part, Start
from upstream.templates.functions import custom_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from upstream.stages.resolve import Tool


def start_of(tools: Mapping[str, Tool], name: str) -> Start:
    """The beginning of a call of the tool under this name; of a function so called when there is none."""
    tool = tools.get(name)
    if tool is None:
        return Start("function_call", name)
    return Start("custom_tool_call" if tool.type == "custom" else "function_call", tool.name, tool.namespace)


@dataclass(slots=True)
class _Call:
    key: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    begun: bool = False
    told: int = 0
    """Pieces that have been told."""

    def is_whole(self) -> bool:
        try:
            orjson.loads("".join(self.pieces))
        except orjson.JSONDecodeError:
            return False
        return True


class Calls:
    """The calls of one answer. `tools` are those on offer, by the names that the model knows them by."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._all: dict[int, _Call] = {}
        self._open: list[_Call] = []

    def add(self, piece: dict[str, Any], place: int) -> Iterator[Part]:
        """Parts of one piece: a member of `delta.tool_calls`, at this place in it."""
        call = self._find(piece, place)
        function = piece.get("function")
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            if isinstance(name, str) and not call.name:
                call.name = name
            if isinstance(arguments, dict):  # as some endpoints write them
                arguments = orjson.dumps(arguments).decode()
            if isinstance(arguments, str) and arguments:
                call.pieces.append(arguments)
        while self._open and self._open[0].name:
            head = self._open[0]
            if not self._is_custom(head):
                yield from self._stream(head)
            if len(self._open) == 1 or not head.is_whole():
                return
            yield from self._rest(head)
            yield End()
            self._open.pop(0)

    def finish(self, *, cut: bool = False) -> Iterator[Part]:
        """What is left of all open calls; the last one of an answer that is `cut` does not end."""
        while self._open:
            call = self._open.pop(0)
            yield from self._rest(call)
            if self._open or not cut:
                yield End()

    def _find(self, piece: dict[str, Any], place: int) -> _Call:
        """The call that a piece belongs to: by index, else by its id, else by its place."""
        key, index = piece.get("id"), piece.get("index")
        if not isinstance(index, int):
            known = next((at for at, call in self._all.items() if key and call.key == key), None)
            index = known if known is not None else len(self._all) if key else place
        call = self._all.get(index)
        if call is None:
            call = self._all[index] = _Call(key if isinstance(key, str) else "")
            self._open.append(call)
        return call

    def _rest(self, call: _Call) -> Iterator[Part]:
        if self._is_custom(call):
            yield start_of(self._tools, call.name)
            yield Delta(custom_input("".join(call.pieces)), len(call.pieces))
        else:
            yield from self._stream(call)

    def _stream(self, call: _Call) -> Iterator[Part]:
        if not call.begun:
            call.begun = True
            yield start_of(self._tools, call.name)
        fresh, call.told = call.pieces[call.told :], len(call.pieces)
        yield from (Delta(piece) for piece in fresh)

    def _is_custom(self, call: _Call) -> bool:
        return call.name in self._tools and self._tools[call.name].type == "custom"
