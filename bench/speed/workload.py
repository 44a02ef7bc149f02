"""A realistic load: what an agent says in a loop of tool calls. The same seed gives the same bytes.

Instructions and tools are 38 kB of JSON, outputs of tools are lognormal (median 1 kB, nine of ten below 4 kB, 64 kB at
most), and each answer is one call of about 120 tokens. The text is code, the sources of Python's own library: its
tokens are as varied as those of what coding agents read.
"""

from __future__ import annotations

import json
import math
import random
import re
import sysconfig
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upstream.engines.sim import pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = "sim"
PREAMBLE_BYTES = 38_000
"""Instructions and tools as JSON."""
OUTPUT_MEDIAN = 1000
OUTPUT_SIGMA = math.log(4) / 1.2816
"""So that nine of ten are below four times the median."""
OUTPUT_MOST = 64_000
_TOOLS = 24
_TOOL_BYTES = 1100
_ANSWER_TOKENS = 112
"""Of the query; the rest of the arguments comes to some more."""
_WORDS = re.compile(r"\w+")
_MODULES = ("argparse.py", "ast.py", "doctest.py", "inspect.py", "pydoc.py", "subprocess.py", "tarfile.py", "typing.py")


@cache
def library() -> str:
    """Sources of Python's own library, about 700 kB."""
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join((folder / name).read_text(encoding="utf-8") for name in _MODULES)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a turn says beside its input, as raw JSON members in the order that clients write them."""

    instructions: bytes = field(repr=False)
    tools: bytes = field(repr=False)

    def head(self, *more: bytes) -> bytes:
        """The members, `more` after them, without braces."""
        members = [b'"model":"%b"' % MODEL.encode(), b'"instructions":' + self.instructions, b'"tools":' + self.tools]
        return b",".join([*members, *more])


class Load:
    """Makes the parts of one agent's conversation."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - nothing here is a secret
        self._calls = 0

    def envelope(self) -> Envelope:
        """Instructions and tools of `PREAMBLE_BYTES`; of the tools only `search_code` is ever called."""
        query = "".join(pieces(" ".join(_WORDS.findall(self.text(8000))))[:_ANSWER_TOKENS])
        tools = [_tool("search_code", "Searches the code.", {"type": "string", "const": query})]
        tools += [_tool(f"edit_part_{n}", self.text(_TOOL_BYTES), {"type": "string"}) for n in range(_TOOLS - 1)]
        listed = _json(tools)
        return Envelope(_json(self.text(PREAMBLE_BYTES - len(listed))), listed)

    def question(self) -> bytes:
        """The user's message, with which a loop begins."""
        return _json({"role": "user", "content": self.text(400)})

    def output(self, call_id: str, size: int | None = None) -> bytes:
        """What a tool gives back, of `size` bytes as an item, or of a size by chance."""
        if size is None:
            size = min(OUTPUT_MOST, round(self._random.lognormvariate(math.log(OUTPUT_MEDIAN), OUTPUT_SIGMA)))
        return _filled({"type": "function_call_output", "call_id": call_id, "output": ""}, size, self.text(size))

    def history(self, size: int) -> list[bytes]:
        """Items of a loop so far, of `size` bytes as a JSON array: a question, then calls with their outputs."""
        items = [self.question()]
        left = size - len(items[0]) - 2
        while left > 0:
            self._calls += 1
            call = _json(
                {
                    "type": "function_call",
                    "call_id": f"call_{self._calls}",
                    "name": "search_code",
                    "arguments": json.dumps({"query": self.text(500)}),
                }
            )
            output = self.output(f"call_{self._calls}")
            items += [call, output]
            left -= len(call) + len(output) + 2
        return items

    def text(self, size: int) -> str:
        """Code of `size` characters from anywhere."""
        source = library()
        at = self._random.randrange(len(source))
        while len(source) - at < size:
            source += source
        return source[at : at + size]


def request(envelope: Envelope, items: Sequence[bytes], *more: bytes) -> bytes:
    """A turn as a JSON object. `input` is its last member, as most clients write it."""
    return b'{%b,"input":[%b]}' % (envelope.head(*more), b",".join(items))


def call_id(items: Sequence[bytes]) -> str:
    """The call that an answer makes. Raises `ValueError` when it makes none."""
    for item in reversed(items):
        value = json.loads(item)
        if value["type"] == "function_call":
            return str(value["call_id"])
    raise ValueError("no call")


def _tool(name: str, description: str, parameter: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"query": parameter},
        "required": ["query"],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": name,
        "description": description,
        "strict": False,
        "parameters": parameters,
    }


def _filled(item: dict[str, Any], size: int, text: str) -> bytes:
    """The item with as much of the text as its output as brings it to about `size` bytes."""
    whole = _json(item | {"output": text})
    beyond = max(0, len(whole) - size)
    return _json(item | {"output": text[: max(1, len(text) - beyond)]})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
