"""`local`: a small real model in a child process, offline once its weights are there."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal

from upstream.engines import weights
from upstream.engines.failures import unreachable
from upstream.engines.llamacpp import LlamaCpp

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from upstream.engine import Part, Prompt

_COMMAND = (sys.executable, "-m", "upstream.engines.local_server")
_SECONDS = 120.0
_END = 10.0


class Local:
    """The model and its process, which is started again when it has died."""

    takes: Literal["tokens"] = "tokens"

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._engine: LlamaCpp | None = None
        self._starting = asyncio.Lock()

    def accepts(self, model: str) -> bool:
        """Any name: there is one model."""
        return bool(model)

    async def warm(self, prompt: Prompt) -> None:
        """Let the model read the prompt."""
        await (await self.ready()).warm(prompt)

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The model's answer."""
        try:
            engine = await self.ready()
        except ValueError:
            raise unreachable() from None
        async with aclosing(engine.generate(prompt)) as parts:
            async for part in parts:
                yield part

    async def ready(self) -> LlamaCpp:
        """The engine of a running process. Raises `ValueError`, of one line, when it does not start."""
        async with self._starting:
            if self._engine is None or self._process is None or self._process.returncode is not None:
                await self.close()
                self._engine = LlamaCpp(await self._start())
            return self._engine

    async def close(self) -> None:
        """End the process, whose input ends with this one as well."""
        engine, process, self._engine, self._process = self._engine, self._process, None, None
        if engine is not None:
            await engine.close()
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), _END)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _start(self) -> str:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        line = await _first_line(self._process.stdout)
        if line.startswith("http://127.0.0.1:"):
            return line
        await self.close()
        raise ValueError(
            "the local engine does not start; it needs, in the checkout: .venv/bin/pip install -e '.[local]'"
        )


async def _first_line(output: asyncio.StreamReader | None) -> str:
    """What a process says first; empty when it says nothing in time."""
    if output is not None:
        with suppress(TimeoutError):
            return (await asyncio.wait_for(output.readline(), _SECONDS)).decode().strip()
    return ""


async def start() -> Local:
    """The engine, its model loaded. Raises `ValueError`, of one line, for what is missing."""
    found = weights.path(os.environ)
    if not found.is_file():
        raise ValueError("the local engine has no weights; .venv/bin/deltawire model fetch downloads them once")
    engine = Local((*_COMMAND, str(found)))
    await engine.ready()
    return engine
