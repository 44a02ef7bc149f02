"""Requests to vLLM as tokens, and what its streams tell (vLLM 0.32: `GenerateRequest`, `CompletionRequest`).

Both endpoints stream chunks with `choices[0].token_ids`, the last of them with a `finish_reason`, and then a chunk
without choices that has the `usage`. A prompt's tokens are salted by `cache_salt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from upstream.engines.failures import broken_off, told
from upstream.engines.numbers import token_ids, usage
from upstream.engines.token_answer import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.engine import Prompt, Usage

GENERATE: Final = "/inference/v1/generate"
COMPLETIONS: Final = "/v1/completions"
MODELS: Final = "/v1/models"
ABSENT: Final = frozenset({403, 404, 405})
"""How `GENERATE` answers where it is switched off (403), or not there at all."""
_DONE = b"[DONE]"
_FINISH: dict[object, Literal["", "stop", "length"]] = {
    None: "",
    "stop": "stop",
    "repetition": "stop",
    "length": "length",
}


@dataclass(frozen=True, slots=True)
class Server:
    """What has to be known of a server before it is asked."""

    window: int
    """Tokens of a prompt and its answer together."""
    generates: bool
    """Whether it has `GENERATE`."""

    @property
    def path(self) -> str:
        """Where prompts go."""
        return GENERATE if self.generates else COMPLETIONS


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says beside its prompt."""

    stops: Sequence[int]
    salt: str
    model: str = ""
    """An adapter or an alias; empty for the server's own model."""


def window_of(models: dict[str, Any], wanted: str) -> int:
    """The window out of the answer of `MODELS`. Raises `ApiError` when it does not say."""
    cards = models.get("data")
    found = [one for one in cards if isinstance(one, dict)] if isinstance(cards, list) else []
    card = next((one for one in found if one.get("id") == wanted), found[0] if found else {})
    window = card.get("max_model_len")
    if not isinstance(window, int):
        raise broken_off()
    return window


def body(server: Server, ids: list[int], prompt: Prompt, asked: Asked, *, warms: bool = False) -> dict[str, Any]:
    """A request for an answer; one that `warms` reads the prompt and writes a single token, since 0 is refused."""
    limit = 1 if warms else prompt.max_output_tokens
    if limit is None and not server.generates:
        limit = server.window  # it would stop after 16
    sampling = {
        "max_tokens": None if limit is None else min(limit, server.window),
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "stop_token_ids": list(asked.stops),
        "structured_outputs": _structured(prompt.text.get("format")),
    }
    given = {name: value for name, value in sampling.items() if value is not None}
    made: dict[str, Any] = {"stream": not warms, "cache_salt": asked.salt}
    if asked.model:
        made["model"] = asked.model
    if not warms:
        made["stream_options"] = {"include_usage": True}
    if server.generates:
        return made | {"token_ids": ids, "sampling_params": given | {"detokenize": False}}
    return made | {"prompt": ids, "return_token_ids": True} | given


def read(data: bytes) -> Piece:
    """One event. Raises `ApiError` for an error in it, and for an answer that was broken off."""
    if data.strip() == _DONE:
        return Piece()
    chunk = told(data)
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    if not isinstance(choice, dict) or (finish := choice.get("finish_reason")) not in _FINISH:
        raise broken_off()
    tokens = choice.get("token_ids")
    if tokens is None and choice.get("text"):
        raise broken_off()  # it writes, and does not say which tokens
    return Piece(token_ids(tokens or []), _FINISH[finish], _usage(chunk.get("usage")))


def _structured(wanted: object) -> dict[str, Any] | None:
    if not isinstance(wanted, dict):
        return None
    if wanted.get("type") == "json_schema" and isinstance(schema := wanted.get("schema"), dict):
        return {"json": schema}
    return {"json_object": True} if wanted.get("type") == "json_object" else None


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return usage(value.get("prompt_tokens"), cached, value.get("completion_tokens"), None)
