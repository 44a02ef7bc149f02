"""The client that the example pod runs, against a server that answers as the API does."""

from __future__ import annotations

import http.server
import importlib.util
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.helm.chart import CHART

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPEC = importlib.util.spec_from_file_location("example_client", CHART / "files" / "client.py")
assert _SPEC is not None
assert _SPEC.loader is not None
client = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(client)


class Api(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.turns: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Api

    def do_POST(self) -> None:
        assert self.path == "/v1/responses"
        self.server.turns.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.server.keys.append(self.headers["authorization"])
        number = len(self.server.turns)
        body = json.dumps({"output": [{"type": "message", "role": "assistant", "content": f"a{number}"}]}).encode()
        self.send_response(self.server.status)
        self.send_header("x-deltawire-transport", "full" if number == 1 else "delta")
        if number == 1:
            self.send_header("x-deltawire-reason", "first_turn")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class StopAfter(threading.Event):
    """Set after that many pauses, none of which takes any time."""

    def __init__(self, pauses: int) -> None:
        super().__init__()
        self.left = pauses

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == client.PAUSE
        self.left -= 1
        if self.left <= 0:
            self.set()
        return self.is_set()


def talk(api_url: str, pauses: int, monkeypatch: pytest.MonkeyPatch, key: str = "") -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api_url)
    monkeypatch.setenv("EXAMPLE_MODEL", "sim")
    monkeypatch.setenv("OPENAI_API_KEY", key)
    client.run(StopAfter(pauses))


def test_each_turn_carries_the_whole_history_and_logs_how_it_travelled(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(api.base_url, 2, monkeypatch)
    assert [len(turn["input"]) for turn in api.turns] == [1, 3]
    assert api.turns[1]["input"][:1] == api.turns[0]["input"]
    assert api.turns[1]["input"][1]["content"] == "a1"
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"turn": 1, "items": 1, "status": 200, "transport": "full", "reason": "first_turn"}
    assert second == {"turn": 2, "items": 3, "status": 200, "transport": "delta"}


def test_a_new_conversation_begins_after_a_few_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(api.base_url, client.TURNS + 1, monkeypatch)
    assert [len(turn["input"]) for turn in api.turns] == [1, 3, 5, 7, 9, 1]


def test_the_key_travels_as_a_bearer_token_and_is_left_out_when_there_is_none(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(api.base_url, 1, monkeypatch)
    talk(api.base_url, 1, monkeypatch, key="k-1")
    assert api.keys == [None, "Bearer k-1"]
    assert "k-1" not in capsys.readouterr().out


def test_an_error_begins_a_new_conversation(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.status = 503
    talk(api.base_url, 2, monkeypatch)
    assert [len(turn["input"]) for turn in api.turns] == [1, 1]


def test_a_refused_connection_is_logged_by_its_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Api() as gone:
        url = gone.base_url
    talk(url, 1, monkeypatch)
    assert json.loads(capsys.readouterr().out) == {"turn": 1, "items": 1, "failed": "ConnectionRefusedError"}
