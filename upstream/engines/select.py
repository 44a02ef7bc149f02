"""From the setting that names an engine to the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upstream.engines import local
from upstream.engines.chat import Chat
from upstream.engines.llamacpp import LlamaCpp
from upstream.engines.reading import reading
from upstream.engines.salt import Salts
from upstream.engines.sglang import Sglang
from upstream.engines.sim import Sim
from upstream.engines.vllm import Vllm
from upstream.tokens import vocabulary

if TYPE_CHECKING:
    from upstream.engine import Engine
    from upstream.settings import UpstreamSettings


async def engine_for(settings: UpstreamSettings) -> Engine:
    """The engine, ready to be asked. Raises `ValueError`, of one line, when there is no such engine here."""
    kind, _, url = settings.engine.partition(":")
    if settings.engine == "sim":
        return Sim(
            tool_turns=settings.tool_turns,
            tokens_per_second=settings.tokens_per_second,
            parallel=settings.parallel_calls == "on",
        )
    if kind == "chat" and url:
        return Chat(url, model=settings.engine_model, key=settings.engine_key)
    if settings.engine == "local":
        return await local.start()
    if kind == "llamacpp" and url:
        return LlamaCpp(url, key=settings.engine_key)
    if kind in {"vllm", "sglang"} and url:
        read, salts = reading(settings.template, vocabulary.load(settings.vocabulary)), Salts(settings.secret)
        if kind == "vllm":
            return Vllm(url, reading=read, salts=salts, model=settings.engine_model, key=settings.engine_key)
        return Sglang(url, reading=read, salts=salts, key=settings.engine_key)
    raise ValueError(f"unknown engine {settings.engine!r}: sim, local, chat:URL, llamacpp:URL, vllm:URL, sglang:URL")


def models(settings: UpstreamSettings) -> tuple[str, ...]:
    """Models to list: a real engine's are listed only where one is named, since it answers under any name."""
    if settings.engine == "sim":
        return settings.models
    return (settings.engine_model,) if settings.engine_model else ()
