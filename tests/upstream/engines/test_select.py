from __future__ import annotations

import pytest

from upstream.engines.chat import Chat
from upstream.engines.llamacpp import LlamaCpp
from upstream.engines.select import engine_for, models
from upstream.engines.sglang import Sglang
from upstream.engines.sim import Sim
from upstream.engines.vllm import Vllm
from upstream.settings import UpstreamSettings


async def test_the_setting_names_the_engine() -> None:
    assert isinstance(await engine_for(UpstreamSettings()), Sim)
    engine = await engine_for(UpstreamSettings(engine="chat:http://127.0.0.1:1/v1"))
    assert isinstance(engine, Chat)
    await engine.close()
    assert isinstance(await engine_for(UpstreamSettings(engine="llamacpp:http://127.0.0.1:1")), LlamaCpp)
    assert isinstance(await engine_for(UpstreamSettings(engine="vllm:http://127.0.0.1:1")), Vllm)
    assert isinstance(await engine_for(UpstreamSettings(engine="sglang:http://127.0.0.1:1")), Sglang)


@pytest.mark.parametrize(
    "name", ["", "none", "chat", "chat:", "llamacpp:", "vllm:", "sglang", "sim:http://127.0.0.1:1"]
)
async def test_an_unknown_engine_is_one_clear_line(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^unknown engine '{name}': sim, local, chat:URL"):
        await engine_for(UpstreamSettings(engine=name))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (UpstreamSettings(engine="vllm:http://127.0.0.1:1", template="llama"), "unknown template"),
        (UpstreamSettings(engine="sglang:http://127.0.0.1:1", vocabulary="klingon"), "unknown vocabulary"),
        (UpstreamSettings(engine="vllm:http://127.0.0.1:1", vocabulary="qwen3"), "the vocabulary qwen3 has no token"),
    ],
)
async def test_what_an_engine_cannot_be_shown_or_read_with_is_one_clear_line(
    settings: UpstreamSettings, why: str
) -> None:
    with pytest.raises(ValueError, match=f"^{why} "):
        await engine_for(settings)


def test_models_are_listed_where_they_are_known() -> None:
    remote = "chat:http://127.0.0.1:1"

    assert "gpt-5.5" in models(UpstreamSettings())
    assert models(UpstreamSettings(engine=remote)) == ()
    assert models(UpstreamSettings(engine=remote, engine_model="m")) == ("m",)


def test_the_key_is_shown_nowhere() -> None:
    assert "sk-1" not in repr(UpstreamSettings(engine_key="sk-1"))
