from __future__ import annotations

import importlib.util
import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support import fetch

if TYPE_CHECKING:
    from pathlib import Path


def _program(folder: Path, name: str, text: str = "exit 1") -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def test_a_redis_server_on_the_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(tmp_path, "redis-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch.redis_binary() == program


def test_without_redis_anywhere_the_way_to_have_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(fetch.Unavailable, match="Debian: redis-server"):
        fetch.redis_binary()


def test_without_node_the_way_to_have_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fetch.Unavailable, match="install Node 18"):
        fetch.clients(tmp_path / "cache")


def test_an_old_node_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path, "node", "echo v16.20.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fetch.Unavailable, match=r"newer node than v16\.20\.1"):
        fetch.node()


def test_clients_are_installed_once_and_again_only_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path, "node", "echo v20.0.0")
    _program(tmp_path, "npm", "echo 'no network' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    cache = tmp_path / "cache"
    with pytest.raises(fetch.Unavailable, match="no network"):
        fetch.clients(cache)
    _program(tmp_path, "npm", f'echo "$PWD $*" >> {tmp_path}/calls')
    folder = fetch.clients(cache)
    assert fetch.clients(cache) == folder
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"{folder} ci --ignore-scripts --no-audit --no-fund"]
    assert (folder / "agent.mjs").is_file()


def test_every_client_is_pinned_and_the_lock_names_no_registry() -> None:
    package = json.loads((fetch.CLIENTS / "package.json").read_text())
    lock = json.loads((fetch.CLIENTS / "package-lock.json").read_text())
    for name, version in package["dependencies"].items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert lock["packages"][f"node_modules/{name}"]["version"] == version
    for name, entry in lock["packages"].items():
        assert "resolved" not in entry
        assert not name or "integrity" in entry or entry.get("optional")
