# ruff: noqa: INP001 (a script that the chart mounts, not a module)
"""A client that knows nothing of deltawire: each turn posts the whole history, a line says how that turn travelled."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

TURNS = 5  # per conversation; then a new one begins
PAUSE = 10.0  # seconds between turns
Item = dict[str, Any]


def turn(base_url: str, key: str, model: str, history: list[Item]) -> tuple[dict[str, Any], list[Item]]:
    """One `POST /responses` with all of `history`: what to log, and the items of the answer (none after an error)."""
    url = urlsplit(base_url)
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    connection = connect(url.netloc, timeout=120)
    try:
        connection.request("POST", f"{url.path}/responses", json.dumps({"model": model, "input": history}), headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        line = {"status": answer.status} | {
            name: answer.headers[f"x-deltawire-{name}"]
            for name in ("transport", "reason", "error")
            if f"x-deltawire-{name}" in answer.headers
        }
        return line, body["output"] if answer.status == http.client.OK else []
    except (OSError, ValueError, http.client.HTTPException) as error:
        return {"failed": type(error).__name__}, []
    finally:
        connection.close()


def run(stop: threading.Event, pause: float = PAUSE) -> None:
    """Talk until `stop` is set. Settings: OPENAI_BASE_URL, OPENAI_API_KEY, EXAMPLE_MODEL."""
    base_url, model = os.environ["OPENAI_BASE_URL"], os.environ["EXAMPLE_MODEL"]
    key = os.environ.get("OPENAI_API_KEY", "")
    while not stop.is_set():
        history: list[Item] = []
        for number in range(1, TURNS + 1):
            history.append({"role": "user", "content": f"This is message {number}. Answer in one word."})
            line, output = turn(base_url, key, model, history)
            sys.stdout.write(json.dumps({"turn": number, "items": len(history)} | line) + "\n")
            sys.stdout.flush()
            if stop.wait(pause) or not output:
                break
            history += output


if __name__ == "__main__":
    stopped = threading.Event()
    # The first process of a container ignores SIGTERM unless it asks for it.
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    run(stopped)
