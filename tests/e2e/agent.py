"""An agent on the OpenAI Python SDK, one turn at a time: the plain loop of its documentation."""

from __future__ import annotations

import json
import ssl
from typing import Any

from openai import DefaultHttpxClient, OpenAI

SHELL = {
    "type": "function",
    "name": "shell",
    "description": "Run a shell command.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
}
FIRST_TURN = ("full", "first_turn")
DELTA = ("delta", None)
_TRUST = ssl.create_default_context()  # reading the certificates anew for each client takes longer than a whole loop


class Agent:
    """Keeps the history as an application does, and notes what it was answered."""

    def __init__(self, base_url: str, *, stream: bool = False, **members: Any) -> None:
        self._stream = stream
        self._body = {"model": "gpt-5.2", "instructions": "Use the tools.", "tools": [SHELL], **members}
        self.history: list[Any] = []
        self.transports: list[tuple[str | None, str | None]] = []
        """Of each turn: `x-deltawire-transport` and `x-deltawire-reason`."""
        self.answers: list[Any] = []
        """Of each turn: the response, or all events."""
        self.point_to(base_url)

    def point_to(self, base_url: str) -> None:
        """Send later turns elsewhere."""
        self._base_url = base_url

    def ask(self, question: str) -> None:
        """One user message, and turns until no tool is called any more."""
        self.say(question)
        with self._client() as client:
            while self._turn(client):
                pass

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def turn(self) -> bool:
        """Send the history, on a new connection, and run the tools that the answer calls. Whether there were any."""
        with self._client() as client:
            return self._turn(client)

    def _client(self) -> OpenAI:
        plain = DefaultHttpxClient(verify=_TRUST)
        return OpenAI(base_url=self._base_url, api_key="sk-test", max_retries=0, timeout=60, http_client=plain)

    def _turn(self, client: OpenAI) -> bool:
        output = self._answer(client)
        self.history += output
        calls = [item for item in output if item.type == "function_call"]
        for call in calls:
            result = f"ran: {json.loads(call.arguments)}"
            self.history.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
        return bool(calls)

    def _answer(self, client: OpenAI) -> list[Any]:
        create: Any = client.responses.with_raw_response.create
        raw = create(**self._body, input=self.history, stream=self._stream)
        header = raw.headers.get
        self.transports.append((header("x-deltawire-transport"), header("x-deltawire-reason")))
        if self._stream:
            events = list(raw.parse())
            self.answers.append([event.model_dump(exclude_unset=True) for event in events])
            assert events[-1].type == "response.completed"
            response = events[-1].response
        else:
            response = raw.parse()
            self.answers.append(response.model_dump(exclude_unset=True))
        output: list[Any] = response.output
        return output
