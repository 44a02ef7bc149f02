"""The commands as a user starts them: what they print, how they end, what they refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from http.client import HTTPConnection
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import proxy.app
from proxy import cli
from tests.support import http
from tests.support.commands import Command
from upstream.access.keys import read_keys
from upstream.engines import weights
from upstream.scripted.chaos import listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECONDS = 60
ANY = "127.0.0.1:0"
USER = {"role": "user", "content": "hunter2"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "hunter2"}


def run(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DELTAWIRE_", "OTEL_"))}
    return subprocess.run(
        [sys.executable, "-m", "proxy.cli", *words],
        env=inherited | dict(env or {}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def line_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a refusal is."""
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# Help


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_the_commands(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([word]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in cli._COMMANDS)


def test_no_command_is_a_bad_setting_that_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert capsys.readouterr().out == cli.USAGE


@pytest.mark.parametrize("name", sorted(cli._COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: deltawire {name}")
    if name in {"up", "proxy", "upstream"}:
        assert "DELTAWIRE_MAX_BODY; default 128MiB" in " ".join(shown.split())


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_is_that_of_the_package(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([word]) == 0
    assert capsys.readouterr().out == f"deltawire {version('deltawire')}\n"


def test_the_module_is_the_command() -> None:
    done = run("--help")
    assert (done.returncode, done.stdout, done.stderr) == (0, cli.USAGE, "")


def test_a_sidecar_does_not_load_the_server_nor_what_only_some_settings_need() -> None:
    code = """
import sys, proxy.cli
print(sorted({*sys.modules} & {"upstream.app", "upstream.http.api", "upstream.access.keys", "bench", "redis", "cryptography"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=SECONDS)
    assert done.stdout.strip() == "[]"


# Bad settings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "deltawire: there is no command 'fly'; deltawire --help lists them"),
        (["proxy", "--listen", "x"], "deltawire proxy: --listen: HOST:PORT is needed, not 'x'"),
        (["proxy", "--listen"], "deltawire proxy: argument --listen: expected one argument"),
        (["proxy", "--lisen=a:1"], "deltawire proxy: there is no option '--lisen'"),
        (["upstream", "--tool-turns", "-1"], "deltawire upstream: --tool-turns: a number is needed, not '-1'"),
        (["upstream", "--tool-turns", "x"], "deltawire upstream: --tool-turns: a number is needed, not 'x'"),
        (["up", "--log-level", "loud"], "deltawire up: --log-level: one of debug, info, warning, error is needed, "),
        (
            ["chaos-upstream", "--fault", "x"],
            "deltawire chaos-upstream: --fault: NAME=RATE is needed, with a rate from 0 ",
        ),
        (["chaos-upstream", "--fault", "fire=1"], "deltawire chaos-upstream: there is no fault 'fire'; --list tells"),
        (["explain"], "deltawire explain: the following arguments are required: A.json, B.json"),
        (["explain", "a", "b", "c"], "deltawire explain: there is a word too many"),
        (["explain", "a", "b"], "deltawire explain: a: No such file or directory"),
        (["replay"], "deltawire replay: the following arguments are required: TRACE.jsonl"),
        (["replay", "nowhere"], "deltawire replay: nowhere: no such file or folder"),
    ],
)
def test_a_bad_setting_is_one_clear_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith(said)


@pytest.mark.parametrize("command", ["proxy", "up"])
def test_a_shared_state_needs_a_secret(command: str) -> None:
    done = run(command, "--state", "redis://user:hunter2@127.0.0.1:1/0", env={"DELTAWIRE_UPSTREAM_LISTEN": ANY})
    line = line_of(done)
    assert line.startswith(f"deltawire {command}: --secret is needed with --state")
    assert "hunter2" not in line


def test_a_bad_variable_ends_a_process_like_a_bad_option() -> None:
    line = line_of(run("proxy", env={"DELTAWIRE_MAX_BODY": "much"}))
    assert line == "deltawire proxy: DELTAWIRE_MAX_BODY: a size such as 128MiB is needed, not 'much'"


@pytest.mark.parametrize("command", ["proxy", "up", "upstream"])
def test_an_address_that_is_taken_is_one_clear_line(command: str, taken_port: int) -> None:
    taken = f"127.0.0.1:{taken_port}"
    words = {
        "proxy": ["--listen", ANY, "--admin", taken],
        "up": ["--proxy-listen", ANY, "--admin", taken, "--upstream-listen", ANY],
        "upstream": ["--listen", taken],
    }
    line = line_of(run(command, "--log-level", "error", *words[command]))
    assert line.startswith(f"deltawire {command}: cannot listen: ")
    assert str(taken_port) in line


def test_another_package_named_proxy_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(proxy.app, "Sidecar")
    assert cli.main(["explain", "a", "b"]) == 2
    assert "is not deltawire's" in capsys.readouterr().err


def test_an_interrupt_before_a_command_serves_ends_it_as_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli._COMMANDS, "explain", interrupted)
    assert cli.main(["explain"]) == 130


# Keys


def test_a_new_key_opens_the_server_that_has_its_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["key", "team"]) == 0
    key, _, *entry = capsys.readouterr().out.splitlines()
    (tmp_path / "keys.toml").write_text("\n".join(entry))
    assert read_keys((tmp_path / "keys.toml").read_text()).find(f"Bearer {key.removeprefix('key: ')}").name == "team"


@pytest.mark.parametrize("command", ["upstream", "up"])
def test_a_file_of_keys_that_cannot_be_read_is_one_clear_line(command: str, tmp_path: Path) -> None:
    line = line_of(run(command, "--keys", str(tmp_path / "none"), "--log-level", "error"))
    assert line == f"deltawire {command}: --keys: {tmp_path / 'none'}: No such file or directory"


# Weights


def test_weights_that_are_there_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DELTAWIRE_MODEL_DIR", str(tmp_path))
    found = weights.path({"DELTAWIRE_MODEL_DIR": str(tmp_path)})
    found.touch()

    assert cli.main(["model", "fetch"]) == 0
    assert capsys.readouterr().out == f"{found}\n"


# Replays


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([], ["none"]),
        (["--features", "envelope"], ["envelope"]),
        (["--features", "envelope,append"], ["envelope", "append"]),
        (["--features", "envelope,append,context"], ["envelope", "append", "context"]),
    ],
)
def test_a_replays_upstream_offers_what_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], offered: list[str]
) -> None:
    told: dict[str, object] = {}

    def replayed(*_: object, **options: object) -> int:
        told.update(options)
        return 0

    monkeypatch.setattr("bench.replay.main", replayed)
    assert cli.main(["replay", str(tmp_path), *words]) == 0
    assert told == {"features": offered}


def test_the_faults_of_the_chaos_upstream_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["chaos-upstream", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == listing()


# Serving


@pytest.mark.parametrize(
    ("words", "env", "listeners", "number"),
    [
        (["proxy", "--listen", ANY, "--admin", ANY], {}, ["proxy", "admin"], signal.SIGTERM),
        (["proxy", "--listen", "[::1]:0"], {"DELTAWIRE_ADMIN": ANY}, ["proxy", "admin"], signal.SIGINT),
        (["upstream"], {"DELTAWIRE_LISTEN": ANY, "DELTAWIRE_FEATURES": "none"}, ["upstream"], signal.SIGTERM),
        (
            ["up"],
            {"DELTAWIRE_LISTEN": ANY, "DELTAWIRE_ADMIN": ANY, "DELTAWIRE_UPSTREAM_LISTEN": ANY},
            ["upstream", "proxy", "admin"],
            signal.SIGTERM,
        ),
        (["chaos-upstream", "--listen", ANY, "--fault", "failed=1"], {}, ["chaos-upstream"], signal.SIGTERM),
    ],
    ids=["proxy", "proxy by environment", "upstream", "up", "chaos-upstream"],
)
def test_a_server_says_where_it_listens_and_ends_with_0_when_told(
    tmp_path: Path, words: list[str], env: dict[str, str], listeners: list[str], number: int
) -> None:
    command = Command(tmp_path, *words, env=env)
    try:
        urls = {name: command.url(name) for name in listeners}
        assert not any(url.endswith(":0") for url in urls.values())
        if "admin" in urls:
            assert http.get(urls["admin"] + "/healthz").body == b"ok\n"
    finally:
        code = command.stop(number)
    assert code == 0
    expected = [f"deltawire {name} listening on {url}" for name, url in urls.items()]
    if words == ["up"]:
        expected.append(f"export OPENAI_BASE_URL={urls['proxy']}/v1")
    if words[0] == "chaos-upstream":
        expected.append(f"export DELTAWIRE_UPSTREAM={urls['chaos-upstream']}/v1")
    assert command.stdout.splitlines() == expected
    assert all(record["level"] == "info" for record in command.records()), command.stderr


def test_a_second_ctrl_c_does_not_wait_for_running_turns(tmp_path: Path) -> None:
    listen = ("--proxy-listen", ANY, "--upstream-listen", ANY, "--admin", ANY)
    command = Command(tmp_path, "up", *listen, "--tokens-per-second", "0.01", "--drain", "1h")
    try:
        where = urlsplit(command.url("proxy"))
        with closing(HTTPConnection(where.hostname or "", where.port, timeout=60)) as client:
            body = json.dumps({"model": "sim", "input": "Hello", "stream": True})
            client.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
            assert client.getresponse().status == 200
            for _ in range(600):
                command.process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    # One more may fall into the last moments of the interpreter, which has no handler any longer.
                    assert command.process.wait(0.1) in {130, -signal.SIGINT}
                    break
        assert not command.running
    finally:
        command.process.kill()
        command.process.wait()
    assert "Traceback" not in command.stderr


def test_the_log_level_holds(tmp_path: Path) -> None:
    command = Command(tmp_path, "proxy", "--listen", ANY, "--admin", ANY, "--log-level", "error")
    try:
        command.url("admin")
    finally:
        assert command.stop() == 0
    assert command.stderr == ""


# Explain


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = {"a": [USER], "b": [USER, CALL, RESULT], "c": [USER, CALL]}
    for name, items in bodies.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"model": "m", "input": items}))
    (tmp_path / "answer.json").write_text(json.dumps({"output": [CALL]}))
    (tmp_path / "bad.json").write_text("{")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "code", "first_line"),
    [
        (["a.json", "b.json"], 0, "delta: 2 items covered (1 sent before, 1 answered), 1 new"),
        (["a.json", "b.json", "--answer", "answer.json"], 0, "delta: 2 items covered"),
        (["a.json", "c.json"], 1, "no delta (empty_delta): "),
        (["b.json", "a.json"], 1, "no delta (first_turn): the second input ends before $.input[1]"),
    ],
)
@pytest.mark.usefixtures("files")
def test_explain_tells_in_words_and_by_exit_code(
    words: list[str], code: int, first_line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", *words]) == code
    shown = capsys.readouterr()
    assert shown.out.startswith(first_line)
    assert shown.err == ""
    assert "hunter2" not in shown.out


@pytest.mark.usefixtures("files")
def test_explain_shows_content_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--show", "a.json", "b.json"]) == 0
    assert "hunter2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bad.json", "b.json"], "deltawire explain: the first body: "),
        (["a.json", "bad.json"], "deltawire explain: the second body: "),
        (["a.json", "b.json", "--answer", "bad.json"], "deltawire explain: the answer: "),
        (["a.json", "b.json", "--answer", "gone.json"], "deltawire explain: gone.json: No such file or directory"),
        (["a.json", "."], "deltawire explain: .: Is a directory"),
    ],
)
@pytest.mark.usefixtures("files")
def test_files_that_cannot_be_read_are_one_clear_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith(said)
