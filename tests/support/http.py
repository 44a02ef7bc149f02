"""One HTTP exchange, with the bytes as they are given."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SECONDS = 60.0


class Answer(NamedTuple):
    """Status, headers with lower-case names, and body of an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def get(url: str) -> Answer:
    return _exchange("GET", url, None, {})


def post(url: str, body: bytes | Iterable[bytes], headers: Mapping[str, str] | None = None) -> Answer:
    """POST bytes with their length, or an iterable of them in chunks."""
    sent = {"Authorization": "Bearer sk-test", "Content-Type": "application/json", **(headers or {})}
    return _exchange("POST", url, body, sent)


def _exchange(method: str, url: str, body: bytes | Iterable[bytes] | None, headers: Mapping[str, str]) -> Answer:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    try:
        connection.request(method, parts.path, body, dict(headers), encode_chunked=not isinstance(body, bytes | None))
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()
