"""Stand-ins for engines that are given tokens, in the shapes of vLLM 0.32 and SGLang 0.5.23."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_CHUNK = 2
"""Tokens of one event."""


class _Server(Protocol):
    def routes(self) -> Sequence[web.RouteDef]: ...


@asynccontextmanager
async def listening(server: _Server) -> AsyncIterator[str]:
    """The server's URL while it serves."""
    app = web.Application(client_max_size=2**24)
    app.add_routes(server.routes())
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@dataclass
class Script:
    """What a stand-in writes, and what becomes of it."""

    tokens: list[int] = field(default_factory=list)
    finish: str = "stop"
    hangs: bool = False
    """Whether it goes on for ever after its tokens."""
    cut: bool = False
    """Whether the stream ends after its tokens without saying so."""
    refusal: tuple[int, dict[str, Any], dict[str, str]] | None = None
    """Status, body and headers of an answer that is none."""
    error: dict[str, Any] | None = None
    """An event that comes in the place of the end."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has gone away."""

    def chunks(self) -> list[list[int]]:
        return [self.tokens[at : at + _CHUNK] for at in range(0, len(self.tokens), _CHUNK)]

    def refused(self) -> web.Response | None:
        if self.refusal is None:
            return None
        status, error, headers = self.refusal
        return web.json_response(error, status=status, headers=headers)

    async def hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


async def _stream(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await reply.prepare(request)
    return reply


async def _send(reply: web.StreamResponse, event: dict[str, Any] | None) -> None:
    data = "[DONE]" if event is None else json.dumps(event)
    await reply.write(f"data: {data}\n\n".encode())


def _error(status: int, message: str, kind: str) -> web.Response:
    error = {"message": message, "type": kind, "param": None, "code": status}
    return web.json_response({"error": error}, status=status)


class VllmServer:
    """vLLM; with `scale_out` off as it is without `--enable-scale-out`."""

    def __init__(self, *, scale_out: bool = True, window: int = 1000) -> None:
        self.scale_out, self.window = scale_out, window
        self.script = Script()
        self.bodies: list[dict[str, Any]] = []
        self.probes = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self._models),
            web.post("/inference/v1/generate", self._generate),
            web.post("/v1/completions", self._complete),
        ]

    async def _models(self, _: web.Request) -> web.StreamResponse:
        card = {"id": "m", "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": self.window}
        return web.json_response({"object": "list", "data": [card]})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.probes += not body
        if not self.scale_out:
            return _error(403, "Scale-out endpoints are disabled.", "PermissionDeniedError")
        if not body:
            return _error(400, "2 validation errors", "Bad Request")
        return await self._answer(request, body, body["token_ids"], body["sampling_params"])

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        assert body["return_token_ids"] is True
        return await self._answer(request, body, body["prompt"], body)

    async def _answer(
        self, request: web.Request, body: dict[str, Any], ids: list[int], sampling: dict[str, Any]
    ) -> web.StreamResponse:
        self.bodies.append(body)
        script, limit = self.script, sampling.get("max_tokens")
        if (refused := script.refused()) is not None:
            return refused
        if limit is None and "prompt" in body:
            limit = 16
        if limit == 0:
            return _error(400, "max_tokens must be at least 1, got 0.", "BadRequestError")
        if len(ids) > self.window:
            message = f"Input length ({len(ids)}) exceeds model's maximum context length ({self.window})."
            return _error(400, message, "BadRequestError")
        used = {"prompt_tokens": len(ids), "total_tokens": len(ids), "completion_tokens": len(script.tokens)}
        usage = used | {"prompt_tokens_details": {"cached_tokens": 3}}
        if not body["stream"]:
            return web.json_response({"choices": [self._choice(body, [7], "length")], "usage": usage})
        reply = await _stream(request)
        for chunk in script.chunks():
            await _send(reply, {"choices": [self._choice(body, chunk, None)]})
        if script.hangs:
            await script.hang()
        if script.cut:
            return reply
        if script.error is not None:
            await _send(reply, script.error)
        else:
            await _send(reply, {"choices": [self._choice(body, [], script.finish)]})
            await _send(reply, {"choices": [], "usage": usage})
        await _send(reply, None)
        return reply

    def _choice(self, body: dict[str, Any], tokens: list[int], finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "logprobs": None, "finish_reason": finish, "stop_reason": None, "token_ids": tokens}
        return choice | ({"text": "x" * len(tokens)} if "prompt" in body else {"routed_experts": None})


class SglangServer:
    """SGLang: a request under an id goes on from another one there, and what was asked is put together as it does."""

    def __init__(self, *, incremental: bool = False, bos: int = -1) -> None:
        self.incremental, self.bos = incremental, bos
        self.script = Script()
        self.bodies: list[dict[str, Any]] = []
        self.prompts: list[list[int]] = []
        """What the model was shown, request by request."""
        self.opens: dict[str, dict[str, list[int]]] = {}
        """By id: what each request under it left."""
        self.closed: list[str] = []
        self.closings: asyncio.Queue[str] = asyncio.Queue()
        self.can_open = self.can_close = True

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/generate", self._generate),
            web.post("/open_session", self._open),
            web.post("/close_session", self._close),
        ]

    async def _open(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        assert body["capacity_of_str_len"] > 0
        if not self.can_open:
            return web.json_response({"error": {"message": "no"}}, status=400)
        self.opens[body["session_id"]] = {}
        return web.json_response(body["session_id"])

    async def _close(self, request: web.Request) -> web.StreamResponse:
        key = (await request.json())["session_id"]
        while not self.can_close:
            await self.script.hang()
        self.opens.pop(key, None)
        self.closed.append(key)
        self.closings.put_nowait(key)
        return web.Response()

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        script = self.script
        if (refused := script.refused()) is not None:
            return refused
        prompt = self._whole(body)
        if not body["stream"]:
            assert body["sampling_params"]["max_new_tokens"] == 0
            return web.json_response(self._event([], len(prompt or ()), {"type": "length", "length": 0}))
        reply = await _stream(request)
        if prompt is None:
            why = {"type": "abort", "message": "Invalid request", "status_code": 400, "err_type": "x"}
            await _send(reply, self._event([], 1, why))
            await _send(reply, None)
            return reply
        self.prompts.append(prompt)
        written: list[int] = []
        for chunk in script.chunks():
            written += chunk
            await _send(reply, self._event(chunk if self.incremental else written, len(prompt), None, len(written)))
        if script.hangs:
            await script.hang()
        if script.cut:
            return reply
        if script.error is not None:
            await _send(reply, script.error)
        else:
            finish = {"type": script.finish} | ({"matched": 1} if script.finish == "stop" else {"length": 1})
            last = self._event([] if self.incremental else written, len(prompt), finish, len(written))
            self._keep(body, [*prompt, *written])
            await _send(reply, last)
        await _send(reply, None)
        return reply

    def _whole(self, body: dict[str, Any]) -> list[int] | None:
        """The prompt; None where it goes on from what is not there."""
        ids, params = body["input_ids"], body.get("session_params") or {}
        if not params:
            return list(ids)
        before = self.opens.get(params["id"])
        if before is None:
            return None
        if params.get("rid") is None:
            return list(ids)
        if params["rid"] not in before:
            return None
        if ids and ids[0] == self.bos:
            ids = ids[1:]
        return [*before[params["rid"]][: params.get("offset") or None], *ids]

    def _keep(self, body: dict[str, Any], tokens: list[int]) -> None:
        key = (body.get("session_params") or {}).get("id")
        if key in self.opens:
            self.opens[key][body["rid"]] = tokens

    @staticmethod
    def _event(ids: list[int], prompt: int, finish: dict[str, Any] | None, written: int = 0) -> dict[str, Any]:
        meta = {"id": "r", "finish_reason": finish, "prompt_tokens": prompt, "weight_version": "default"}
        counts = {"reasoning_tokens": 0, "completion_tokens": written, "cached_tokens": 3, "num_retractions": 0}
        return {"text": "x" * len(ids), "output_ids": list(ids), "meta_info": meta | counts}
