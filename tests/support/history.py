"""Items of a conversation as servers send and clients echo them, and whose they are."""

from __future__ import annotations

import json
from typing import Any

from state.digest import Keyed

KEYED = Keyed(b"secret")
ONE, TWO = KEYED.tenant([b"one"]), KEYED.tenant([b"two"])
ROOM = 10**9

Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str, name: str = "msg_1") -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": name, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def thought(blob: str, name: str = "rs_1") -> Json:
    summary = [{"type": "summary_text", "text": "hm"}]
    return {"id": name, "type": "reasoning", "summary": summary, "encrypted_content": blob, "status": None}


def call(arguments: str, name: str = "fc_1", call_id: str = "call_1") -> Json:
    item = {"id": name, "type": "function_call", "status": "completed", "call_id": call_id, "name": "f"}
    return item | {"arguments": arguments}


def result(output: str, call_id: str = "call_1") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def bare(item: Json) -> Json:
    """The echo of a client that drops what the server added."""
    kept = {key: value for key, value in item.items() if key not in {"id", "status"}}
    if item["type"] == "message":
        kept["content"] = [{"type": part["type"], "text": part["text"]} for part in item["content"]]
    return kept


def raw(items: list[Json]) -> bytes:
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False).encode()
