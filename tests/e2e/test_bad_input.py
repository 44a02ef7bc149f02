"""What clients get wrong, and an upstream that is not there: the API's own error shape, and a process that goes on."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.e2e.sidecar import Sidecar
from tests.support import http
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.sidecar import Server, Start

MIB = 1024 * 1024
GOOD = json.dumps({"model": "gpt-5.2", "input": "hello"}).encode()


@pytest.fixture(scope="module")
def sidecar(start: Start, server: Server) -> Sidecar:
    return Sidecar(start, server.base_url, "--max-body", "1MiB")


def _check_error(answer: http.Answer, status: int) -> None:
    assert answer.status == status, answer.body[:500]
    assert answer.headers["content-type"].startswith("application/json")
    assert "x-request-id" in answer.headers
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert isinstance(error["message"], str)
    assert isinstance(error["type"], str)


def _check_serving(sidecar: Sidecar) -> None:
    answer = http.post(f"{sidecar.base_url}/responses", GOOD)
    assert answer.status == 200, answer.body[:500]
    assert answer.json()["status"] == "completed"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"model":"gpt-5.2","input":[', id="cut off"),
        pytest.param(b'{"model":"gpt-5.2","input":"a"} x', id="something after it"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"model":"gpt-5.2","input":5}', id="input is a number"),
        pytest.param(b'{"model":"gpt-5.2","input":[5]}', id="an item is a number"),
        pytest.param(b'{"model":["gpt-5.2"],"input":"a"}', id="model is an array"),
        pytest.param(b'{"model":"gpt-5.2","input":"a","stream":"yes"}', id="stream is a string"),
        pytest.param(b'{"model":"gpt-5.2","input":"a","tools":{}}', id="tools is an object"),
        pytest.param(b'{"model":"gpt-5.2","input":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"model":"gpt-5.2","input":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="very deep"),
        pytest.param(b'{"model":"gpt-5.2","input":"a","temperature":NaN}', id="not a number"),
    ],
)
def test_a_body_that_is_no_request_is_a_400(body: bytes, sidecar: Sidecar) -> None:
    _check_error(http.post(f"{sidecar.base_url}/responses", body), 400)
    _check_serving(sidecar)


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        pytest.param("x-snappy", GOOD, 415, id="unknown encoding"),
        pytest.param("gzip", b"\x1f\x8b" + b"corrupt" * 10, 400, id="corrupt gzip"),
        pytest.param("gzip", gzip.compress(GOOD)[:-12], 400, id="gzip cut off"),
        pytest.param("deflate", b"\x78\x9c\xff\xff\xff", 400, id="corrupt deflate"),
        pytest.param("zstd", GOOD, 400, id="not zstd at all"),
        pytest.param("br", b"\xff" * 20, 400, id="corrupt brotli"),
        pytest.param("gzip", gzip.compress(b" " * 64 * MIB), 413, id="gzip bomb"),
        pytest.param("deflate", zlib.compress(b" " * 64 * MIB), 413, id="deflate bomb"),
    ],
)
def test_an_encoding_that_cannot_be_undone_is_refused(
    encoding: str, body: bytes, status: int, sidecar: Sidecar
) -> None:
    answer = http.post(f"{sidecar.base_url}/responses", body, {"Content-Encoding": encoding})
    _check_error(answer, status)
    _check_serving(sidecar)


def _chunks(total: int) -> Iterator[bytes]:
    for _ in range(0, total, 64 * 1024):
        yield b" " * 64 * 1024


def test_a_body_over_the_limit_is_a_413_with_and_without_a_length(sidecar: Sidecar) -> None:
    _check_error(http.post(f"{sidecar.base_url}/responses", b" " * (MIB + 1)), 413)
    _check_serving(sidecar)
    _check_error(http.post(f"{sidecar.base_url}/responses", _chunks(MIB + 64 * 1024)), 413)
    _check_serving(sidecar)


def test_a_body_just_under_the_limit_is_served(sidecar: Sidecar) -> None:
    answer = http.post(f"{sidecar.base_url}/responses", GOOD + b" " * (MIB - len(GOOD)))
    assert answer.status == 200, answer.body[:500]


@pytest.mark.parametrize("sent", [b"", b"POST /v1/respon", b"\x16\x03\x01\x02\x00\x01\x00\xff", b"hello\r\n\r\n"])
def test_a_connection_that_speaks_no_http_or_breaks_off_harms_nobody(sent: bytes, sidecar: Sidecar) -> None:
    parts = urlsplit(sidecar.base_url)
    for tail in (b"", b"POST /v1/responses HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{"):
        with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
            connection.sendall(sent or tail)
    _check_serving(sidecar)


def test_a_missing_upstream_is_a_502_that_says_so_and_the_sidecar_lives_on(start: Start) -> None:
    alone = Sidecar(start, f"http://127.0.0.1:{free_port()}/v1")
    for body in (GOOD, GOOD.replace(b"}", b', "stream": true}'), GOOD):
        answer = http.post(f"{alone.base_url}/responses", body)
        _check_error(answer, 502)
        assert answer.headers["x-deltawire-error"]
    assert http.get(f"{alone.admin_url}/healthz").status == 200
    assert alone.command.stop() == 0


def test_nothing_of_all_this_was_written_as_a_crash(sidecar: Sidecar) -> None:
    assert sidecar.command.running
    assert "Traceback" not in sidecar.command.stderr
    assert sidecar.command.records()
