from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

from upstream.engines import local_server

if TYPE_CHECKING:
    import pytest


def test_it_listens_on_loopback_says_where_and_ends_with_its_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ModuleType("xllamacpp")
    given: list[SimpleNamespace] = []

    def server(params: SimpleNamespace) -> SimpleNamespace:
        given.append(params)
        return SimpleNamespace(listening_address="http://127.0.0.1:1")

    vars(made)["CommonParams"] = lambda: SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace())
    vars(made)["Server"] = server
    monkeypatch.setitem(sys.modules, "xllamacpp", made)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    local_server.main("weights.gguf")

    assert capsys.readouterr().out == "http://127.0.0.1:1\n"
    (params,) = given
    assert (params.hostnames, params.port, params.model.path) == (["127.0.0.1"], 0, "weights.gguf")
    assert (params.cpuparams.n_threads, params.cpuparams.poll) == (1, 0)
