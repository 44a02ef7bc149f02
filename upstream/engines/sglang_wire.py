"""Requests to SGLang as tokens, and what its streams tell (SGLang 0.5.23: `GenerateReqInput`, `/generate`).

An event has `output_ids` and a `meta_info` with counts and, at the end, the `finish_reason`. By default each event has
all tokens so far; a server with `--incremental-streaming-output` sends the new ones only. Both are read: the count of
written tokens tells which it is. The answer begins with 200 before the engine has looked at the request, so what it
refuses is a first event that says so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from upstream.engines.failures import broken_off, from_answer, told
from upstream.engines.numbers import token_ids, usage
from upstream.engines.token_answer import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.engine import Prompt

GENERATE: Final = "/generate"
OPEN: Final = "/open_session"
CLOSE: Final = "/close_session"
_DONE = b"[DONE]"
_FINISH: dict[object, Literal["stop", "length"]] = {"stop": "stop", "length": "length"}
_CAPACITY = 2**20
"""Characters, which the server asks for and does not use."""
_IDLE = 900.0
"""Seconds without a turn after which the server forgets a thread by itself, should nobody come back to end it."""


def opening(key: str) -> dict[str, Any]:
    """The request that begins a thread."""
    return {"session_id": key, "capacity_of_str_len": _CAPACITY, "timeout": _IDLE}


def closing(key: str) -> dict[str, Any]:
    """The request that ends a thread."""
    return {"session_id": key}


def body(ids: list[int], prompt: Prompt, *, stops: Sequence[int], salt: str, warms: bool = False) -> dict[str, Any]:
    """A request for an answer, or one that only reads the prompt."""
    sampling = {
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "json_schema": _schema(prompt.text.get("format")),
    }
    given = {name: value for name, value in sampling.items() if value is not None}
    limits = {
        "max_new_tokens": 0 if warms else prompt.max_output_tokens,  # left out it would be 128; null has no limit
        "stop_token_ids": list(stops),
        "skip_special_tokens": False,
    }
    return {"input_ids": ids, "stream": not warms, "cache_salt": salt, "sampling_params": limits | given}


class Outputs:
    """Reader of one stream."""

    def __init__(self) -> None:
        self._seen = 0

    def read(self, data: bytes) -> Piece:
        """One event. Raises `ApiError` for an error in it, and for an answer that was broken off."""
        if data.strip() == _DONE:
            return Piece()
        event = told(data)
        meta, ids = event.get("meta_info"), event.get("output_ids")
        if not isinstance(meta, dict) or not isinstance(ids, list):
            raise broken_off()
        finish = _finish(meta.get("finish_reason"))
        written = meta.get("completion_tokens")
        is_whole = not isinstance(written, int) or len(ids) >= written
        fresh = ids[self._seen :] if is_whole else ids
        self._seen += len(fresh)
        used = usage(meta.get("prompt_tokens"), meta.get("cached_tokens"), written, None)
        return Piece(token_ids(fresh), finish, used)


def _finish(reason: object) -> Literal["", "stop", "length"]:
    if reason is None:
        return ""
    kind = reason.get("type") if isinstance(reason, dict) else reason
    if kind in _FINISH:
        return _FINISH[kind]
    status = reason.get("status_code") if isinstance(reason, dict) else None
    if isinstance(reason, dict) and isinstance(status, int):
        raise from_answer(status, {}, orjson.dumps({"error": {"message": reason.get("message")}}))
    raise broken_off()


def _schema(wanted: object) -> str | None:
    if not isinstance(wanted, dict):
        return None
    if wanted.get("type") == "json_schema" and isinstance(schema := wanted.get("schema"), dict):
        return json.dumps(schema, ensure_ascii=False)
    return '{"type": "object"}' if wanted.get("type") == "json_object" else None
