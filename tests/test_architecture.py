"""The rules of the house that a machine can keep: who imports whom, what is pure, what mirrors what, what is said."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"

MAY_IMPORT = {
    "wire": set[str](),
    "state": {"wire"},
    "telemetry": {"wire"},
    "proxy": {"state", "wire", "telemetry"},
    "upstream": {"state", "wire", "telemetry"},
    "bench": {"upstream", "state", "wire", "telemetry"},
}
COMPOSITION_ROOT = "proxy.cli"
ROOMS = {
    "access": set[str](),
    "tokens": set[str](),
    "templates": set[str](),
    "scripted": set[str](),
    "settling": set[str](),
    "stages": {"templates", "tokens"},
    "engines": {"stages", "templates", "tokens"},
    "kept": {"settling", "stages"},
    "turns": {"access", "kept", "settling", "stages"},
    "http": {"kept", "stages", "turns"},
    "websocket": {"http", "kept", "stages", "turns"},
}
"""Packages of the server, and which of them each one runs code of: only of those above it."""
BENEATH = {"engine", "problems", "settings", "tasks"}
"""Modules of the server beside its packages that these may use; all others put the packages together."""

DOING = {
    *(
        f"proxy.{name}"
        for name in ("admin", "app", "cli", "client", "flight", "handshake", "link", "links", "listener", "memory")
    ),
    *(f"proxy.{name}" for name in ("passthrough", "relay", "serve", "tasks", "turn", "upgrade")),
    *(
        f"upstream.{name}"
        for name in ("admin", "app", "http.api", "http.io", "http.stored", "http.jobs", "kept.library", "listener")
    ),
    *(f"upstream.{name}" for name in ("settling.writer", "engines.sim", "sinks", "tasks", "websocket.api")),
    *(
        f"upstream.engines.{name}"
        for name in ("chat", "endpoint", "llamacpp", "local", "select", "sglang", "vllm", "weights")
    ),
    *(f"upstream.scripted.{name}" for name in ("connection", "player", "running", "server", "sinks")),
    "state.redis_guard",
    "telemetry.health",
    "telemetry.listener",
    "telemetry.lag",
    "telemetry.spans",
    "telemetry.traces",
    "upstream.scripted",
}
"""Everything else decides: it takes values and returns values."""
DECIDING = {
    *(f"proxy.{name}" for name in ("answer", "plan", "pool", "recovery", "frame", "request", "headers", "dialect")),
    *(f"proxy.{name}" for name in ("settings", "options", "explain", "bodies", "page", "egress")),
    *(f"upstream.{name}" for name in ("kept.recall", "kept.shelf", "kept.stored_form", "kept.vault")),
    *(
        f"upstream.{name}"
        for name in (
            "settling.backlog",
            "settling.books",
            "settling.ledger",
            "kept.lineage",
            "settling.outcome",
            "turns.run",
        )
    ),
    *(
        f"upstream.{name}"
        for name in (
            "stages.pipeline",
            "websocket.frame",
            "websocket.lane",
            "websocket.lanes",
            "stages.validate",
            "stages.resolve",
            "stages.render",
            "stages.seal",
            "kept.store",
        )
    ),
}
"""What has to stay so whatever becomes of the list above."""
SOCKETS_AND_LOOPS = {"asyncio", "aiohttp", "redis", "socket", "ssl", "selectors", "subprocess", "threading", "uvloop"}

UNTESTED: set[str] = set()
"""Source files without a test file of their own. This list may only shrink."""
ACROSS = {
    "upstream/test_conversations.py": "one conversation over all stages and both transports",
}
"""Test files of no single source file, and what they are about. This list may only shrink."""

LONG: dict[str, str] = {}
"""Source files of more lines than this, and why. This list may only shrink."""
MAX_LINES = 250

SKIPPED = {".git", ".venv", "node_modules", "__pycache__", ".cache", ".hypothesis", ".mypy_cache", ".pytest_cache"}
SKIPPED |= {".ruff_cache", "dist", "build"}
WRITTEN_BY_TOOLS = re.compile(r".*\.lock|package-lock\.json|compose-spec\.json")


def files(folder: Path, *suffixes: str) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(ROOT)
        if not SKIPPED & set(inside.parts) and path.is_file() and (not suffixes or path.suffix in suffixes):
            yield path


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module(path): path for package in MAY_IMPORT for path in files(ROOT / package, ".py")}
PACKAGES = {name: path for name, path in SOURCES.items() if path.name == "__init__.py"}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(SOURCES[name].read_text())


def imports(node: ast.AST, *, typing_only: bool = True) -> Iterator[str]:
    """Modules that a piece of code imports, `from x import y` as both `x` and `x.y`."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not typing_only:
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        yield node.module or ""
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"import_module", "importlib.import_module"}:
        (named,) = node.args
        assert isinstance(named, ast.Constant), "what is imported stands in the file"
        yield str(named.value)
    for child in ast.iter_child_nodes(node):
        yield from imports(child, typing_only=typing_only)


@cache
def reached(name: str) -> frozenset[str]:
    """What a module imports, and what those of its imports that are this project's import in turn."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        at = waiting.pop()
        direct = set(imports(tree(at), typing_only=False))
        waiting += [one for one in direct if one in SOURCES and one not in found]
        found |= direct
    return frozenset(found)


# Who imports whom


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {COMPOSITION_ROOT}))
def test_a_folder_imports_only_what_it_may(name: str) -> None:
    package = name.partition(".")[0]
    used = {one.partition(".")[0] for one in imports(tree(name))}
    assert used & (MAY_IMPORT.keys() | {"tests"}) <= MAY_IMPORT[package] | {package}
    assert COMPOSITION_ROOT not in set(imports(tree(name)))


def test_the_packages_of_the_server_stand_in_an_order() -> None:
    assert ROOMS.keys() == {name[9:] for name in PACKAGES if name.startswith("upstream.")}
    order = list(ROOMS)
    assert all(used <= set(order[:at]) for at, used in enumerate(ROOMS.values()))


@pytest.mark.parametrize("room", ROOMS)
def test_a_package_of_the_server_runs_code_of_those_only_that_it_may(room: str) -> None:
    inside = [name for name in SOURCES if name.startswith(f"upstream.{room}.")]
    used = {one for name in inside for one in imports(tree(name), typing_only=False) if one.startswith("upstream.")}
    assert {one.split(".")[1] for one in used} - BENEATH - {room} == ROOMS[room]


def test_the_page_on_the_architecture_names_every_file_of_the_sidecar_on_its_side() -> None:
    said = re.search(
        r"What decides has no I/O(.*?)What does I/O:(.*?)\n\n", (ROOT / "docs/architecture.md").read_text(), re.DOTALL
    )
    assert said is not None
    deciding, doing = ([f"proxy.{name}" for name in re.findall(r"`(\w+)`", part)] for part in said.groups())
    assert sorted(deciding + doing) == sorted(name for name in SOURCES if name.startswith("proxy."))
    assert {name for name in DOING if name.startswith("proxy.")} <= set(doing)


def test_the_page_on_the_architecture_names_every_package_of_the_server() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    assert set(re.findall(r"`upstream/(\w+)/`", page)) == {
        name[9:] for name in PACKAGES if name.startswith("upstream.")
    }


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - DOING))
def test_deciding_code_reaches_neither_sockets_nor_loops(name: str) -> None:
    if name.partition(".")[0] != "bench":
        assert not SOCKETS_AND_LOOPS & {one.partition(".")[0] for one in reached(name)}


def test_the_lists_of_deciding_and_doing_files_name_files_that_are_there() -> None:
    assert SOURCES.keys() >= DECIDING | DOING
    assert not DECIDING & DOING
    pure = {name for name in DOING if not SOCKETS_AND_LOOPS & {one.partition(".")[0] for one in reached(name)}}
    assert not pure, "these decide"


# What mirrors what


def test_every_source_file_has_its_test_file() -> None:
    expected = {name: TESTS / path.relative_to(ROOT).parent / f"test_{path.name}" for name, path in SOURCES.items()}
    missing = {name for name, path in expected.items() if name not in PACKAGES and not path.exists()}
    assert missing == UNTESTED


def test_every_test_file_has_its_source_file() -> None:
    mirrored = [TESTS / package for package in MAY_IMPORT] + [TESTS / "support"]
    strange = {
        str(path.relative_to(TESTS))
        for folder in mirrored
        for path in files(folder, ".py")
        if path.name.startswith("test_") and not _source(path).exists()
    }
    assert strange == ACROSS.keys()


def _source(test: Path) -> Path:
    inside = test.relative_to(TESTS).with_name(test.name.removeprefix("test_"))
    return (TESTS if inside.parts[0] == "support" else ROOT) / inside


# What is said


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_package_says_what_may_live_there_and_what_it_may_import(name: str) -> None:
    said = ast.get_docstring(tree(name)) or ""
    assert len(said.split("\n")[0].split()) >= 5
    if name in MAY_IMPORT:
        listed = re.search(r"[Mm]ay import ((?:`\w+`(?:, | and )?)+)", said)
        assert (listed is not None) or "Imports nothing of the project" in said
        assert set(re.findall(r"`(\w+)`", listed[1]) if listed else ()) == MAY_IMPORT[name]


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - PACKAGES.keys()))
def test_a_file_is_short_or_says_why_not(name: str) -> None:
    path = SOURCES[name]
    length = len(path.read_text().splitlines())
    assert (length > MAX_LINES) == (str(path.relative_to(ROOT)) in LONG), length


# What is not said

_HOSTS = ["py" + "pi.org", "pythonhos" + "ted.org", "npm" + "js.", "deb.deb" + "ian.org", "crates" + ".io"]
_HOSTS += ["proxy.gol" + "ang.org", "ghcr" + ".io", "docker" + ".io", "quay" + ".io", "hugging" + "face.co"]
_INDEXES = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "NPM_CONFIG_REGISTRY",
    "GOPROXY",
)
_NUMBERED = re.compile(r"\b(?:issue|ticket|task|pull request|PR)s?\s*#?\d+|\bissue #", re.IGNORECASE)
_PLACE = re.compile("/wo" + r"rk/|\.\./sha" + r"red\b|/ \"sha" + r"red\"")
_TALK = re.compile("ses" + r"sions?\b", re.IGNORECASE)

MAY_NAME_WHAT_LIES_BESIDE = {".ci/run"}
"""Files that may look for recorded traffic beside the checkout."""
SPEAK_OF_CLIENTS = {"tests/e2e/test_codex.py"}
"""Files in which the word means what the client under test calls so."""


def texts() -> Iterator[tuple[str, str]]:
    for path in files(ROOT):
        if not WRITTEN_BY_TOOLS.fullmatch(path.name):
            try:
                yield str(path.relative_to(ROOT)), path.read_text()
            except UnicodeDecodeError:
                continue


def hosts() -> set[str]:
    """Hosts of package registries: the well-known ones, and those that this environment uses."""
    used = (urlsplit(url).hostname for name in _INDEXES for url in re.split(r"[\s,]+", os.environ.get(name, "")))
    return {*_HOSTS, *(host for host in used if host and "." in host and not host.startswith("127."))}


def test_no_file_names_a_package_registry() -> None:
    pattern = re.compile("|".join(map(re.escape, sorted(hosts()))), re.IGNORECASE)
    assert [name for name, text in texts() if pattern.search(text)] == []


def test_no_file_names_the_place_where_it_was_written() -> None:
    found = {name for name, text in texts() if _PLACE.search(text)}
    assert found == MAY_NAME_WHAT_LIES_BESIDE


def test_no_file_speaks_of_numbered_work() -> None:
    assert [name for name, text in texts() if _NUMBERED.search(text)] == []


def test_prose_is_about_the_project_only() -> None:
    found = {name for name, text in texts() if any(map(_TALK.search, _prose(name, text)))}
    assert found == SPEAK_OF_CLIENTS


def _prose(name: str, text: str) -> Iterator[str]:
    """Comments and sentences of a Python file, all of a text, nothing of other code."""
    if name.endswith((".md", ".txt", ".yaml", ".toml", "/run", "Makefile", "Dockerfile")):
        yield text
    elif name.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
                yield token.string
