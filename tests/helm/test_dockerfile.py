"""The image file cannot be built where these tests run: its words are checked, and its steps where they need no container engine."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.helm.answering import answering
from tests.helm.chart import ROOT

if TYPE_CHECKING:
    from pathlib import Path

Instruction = tuple[str, str]
SHELL = re.compile(r"[;&|<>`$*]")


def instructions() -> list[Instruction]:
    """Keyword and argument, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = (line.strip() for line in text.splitlines())
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def stages() -> list[list[Instruction]]:
    found: list[list[Instruction]] = []
    for instruction in instructions():
        if instruction[0] == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def arguments(stage: list[Instruction], keyword: str) -> list[str]:
    return [argument for word, argument in stage if word == keyword]


def copied() -> list[str]:
    """The paths that the first stage takes out of the project."""
    return [path for line in arguments(stages()[0], "COPY") for path in shlex.split(line)[:-1]]


def commands() -> list[list[str]]:
    return [json.loads(line) for line in arguments(stages()[0], "RUN")]


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path of the first level from the builder: the last rule that matches decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        rule = line.strip()
        if rule and not rule.startswith("#") and fnmatch.fnmatchcase(path, rule.removeprefix("!")):
            verdict = not rule.startswith("!")
    return verdict


def locked(name: str) -> dict[str, str]:
    """Requirement to its digests."""
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^([a-z0-9][^\s=]*==[^\s;\\]+)[^\n]*\\\n((?:\s+--hash=\S+(?: \\)?\n?)+)", text, re.MULTILINE)
    return {
        requirement: " ".join(sorted(re.findall(r"sha256:[0-9a-f]{64}", digests))) for requirement, digests in blocks
    }


def test_there_are_two_stages_on_one_base_image() -> None:
    bases = [arguments(stage, "FROM")[0] for stage in stages()]
    assert bases == ["python:3.13-slim AS build", "python:3.13-slim"]
    assert [line.split()[0] for line in arguments(stages()[1], "COPY")] == ["--from=build"], "only the result moves on"
    assert not arguments(stages()[1], "RUN")


def test_every_path_that_is_copied_exists_and_reaches_the_builder() -> None:
    for path in copied():
        assert (ROOT / path).exists(), path
        assert not ignored(path), path


def test_nothing_else_reaches_the_builder() -> None:
    reaching = {path.name for path in ROOT.iterdir() if not ignored(path.name)}
    assert reaching == set(copied())


def test_every_package_of_the_wheel_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert packages <= set(copied())
    assert {project["project"]["readme"], *project["project"]["license-files"]} <= set(copied())


def test_whatever_is_installed_is_checked_against_the_lock() -> None:
    for command in commands():
        if "pip" in command and "install" in command:
            files = [word for word, before in zip(command[1:], command, strict=False) if before == "-r"]
            if files:
                assert "--require-hashes" in command
                assert set(files) <= {"requirements.lock", "requirements-build.lock"}
            else:
                assert {"--no-deps", "--no-index"} <= set(command), "only the wheel built one step before"
    runtime = [command for command in commands() if "requirements.lock" in command]
    assert [command[0] for command in runtime] == ["/opt/deltawire/bin/python"]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_every_requirement_in_the_lock_has_a_digest(name: str) -> None:
    lines = re.findall(r"^[a-z0-9]\S*==", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert lines
    assert len(locked(name)) == len(lines)
    assert all(locked(name).values())


def test_the_tools_that_build_the_wheel_are_the_ones_that_development_uses() -> None:
    build, development = locked("requirements-build.lock"), locked("requirements-dev.lock")
    assert any(requirement.startswith("hatchling==") for requirement in build)
    assert build.items() <= development.items()


def test_no_step_goes_through_a_shell() -> None:
    for stage in stages():
        for keyword in ("RUN", "ENTRYPOINT", "CMD"):
            for line in arguments(stage, keyword):
                words = json.loads(line)
                assert words
                assert not any(SHELL.search(word) for word in words)
        assert not arguments(stage, "ADD")


def test_it_runs_as_a_numbered_user_and_ends_at_sigterm() -> None:
    final = stages()[1]
    (user,) = arguments(final, "USER")
    assert re.fullmatch(r"[1-9][0-9]{3,}:[1-9][0-9]{3,}", user), "runAsNonRoot is checked by number"
    assert arguments(final, "STOPSIGNAL") == ["SIGTERM"]
    assert [json.loads(line) for line in arguments(final, "ENTRYPOINT") + arguments(final, "CMD")] == [
        ["deltawire"],
        ["proxy"],
    ]


def test_the_wheel_is_built_from_what_is_copied_alone(tmp_path: Path) -> None:
    """The one step that can be run as it stands: here, and with the environment that development has."""
    for name in copied():
        source, target = ROOT / name, tmp_path / "src" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
    (step,) = [command for command in commands() if "wheel" in command]
    step = [sys.executable, *step[1:]]
    step[step.index("--wheel-dir") + 1] = str(tmp_path / "wheel")
    run = subprocess.run(step, cwd=tmp_path / "src", capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = (tmp_path / "wheel").glob("deltawire-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (scripts,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "deltawire = proxy.cli:main" in archive.read(scripts).decode()
        assert {name.partition("/")[0] for name in archive.namelist() if "dist-info" not in name} <= set(copied())


class TestHealthCheck:
    """The health check of the image is a program of its own: it is run, against a listener that answers as told."""

    @staticmethod
    def command() -> list[str]:
        (line,) = arguments(stages()[1], "HEALTHCHECK")
        words: list[str] = json.loads(line.partition(" CMD ")[2])
        assert words[:2] == ["python", "-c"]
        return [sys.executable, *words[1:]]

    def exit_code(self, port: int) -> int:
        env = {"DELTAWIRE_ADMIN": f"0.0.0.0:{port}", "http_proxy": "http://127.0.0.1:9"}
        return subprocess.run(self.command(), env=env, check=False, timeout=30, stderr=subprocess.DEVNULL).returncode

    @pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
    def test_it_passes_on_what_healthz_says(self, status: int, code: int) -> None:
        with answering({"/healthz": status}) as port:
            assert self.exit_code(port) == code

    def test_it_fails_when_nobody_listens(self) -> None:
        with answering({}) as port:
            pass
        assert self.exit_code(port) != 0
