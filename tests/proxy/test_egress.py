"""Which proxy of the environment counts, and that links and plain HTTP both go by it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.egress import proxy_for
from tests.support.responses import user
from tests.support.rig import rigged

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("upstream", "environment", "proxy"),
    [
        ("https://api.openai.com/v1", {}, None),
        ("https://api.openai.com/v1", {"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ("https://api.openai.com/v1", {"https_proxy": "http://u:p@proxy:3128"}, "http://u:p@proxy:3128"),
        ("https://api.openai.com/v1", {"HTTP_PROXY": "http://proxy:3128"}, None),
        ("http://server:8788/v1", {"HTTP_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ("http://server:8788/v1", {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "other,server"}, None),
        ("http://a.internal/v1", {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": ".internal"}, None),
        ("https://api.openai.com/v1", {"HTTPS_PROXY": "socks5://proxy:1080"}, None),
        ("https://api.openai.com/v1", {"HTTPS_PROXY": ""}, None),
    ],
)
def test_the_proxy_is_that_of_the_base_urls_scheme(
    upstream: str, environment: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(upstream)
    assert (None if found is None else str(found).rstrip("/")) == proxy


@pytest.mark.parametrize("text", ["http://", "http://user:hunter2@", "http://user:hunter2@[host", "http://hunter2:x:y"])
def test_a_proxy_that_cannot_be_read_is_an_error_that_does_not_quote_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", text)
    with pytest.raises(ValueError, match="the proxy for https") as raised:
        proxy_for("https://api.openai.com/v1")
    assert "hunter2" not in str(raised.value)


async def test_links_and_plain_http_go_by_the_same_proxy_with_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []

    async def far(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(far, "127.0.0.1", 0) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:pass@127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with rigged(url="http://upstream.invalid/v1") as rig:
            rig.checked = False
            assert (await rig.post(rig.body([user("a")]))).way[0] == "http"
    assert [head.split()[0] for head in heads] == ["GET", "POST"]
    for head in heads:
        assert "upstream.invalid/v1/responses" in head.split()[1]
        assert "proxy-authorization: basic dxnlcjpwyxnz" in head.lower()
        assert "authorization: bearer sk-one" in head.lower()


@pytest.mark.parametrize("entry", ["machine 127.0.0.1", "default"])
async def test_no_login_is_taken_from_a_file_whether_the_client_brings_one_or_not(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "netrc"
    file.write_text(f"{entry} login someone password else\n")
    monkeypatch.setenv("NETRC", str(file))
    for transport in ("auto", "http"):
        async with rigged(transport=transport) as rig:
            assert (await rig.post(rig.body([user("a")]))).status == 200
            assert (await rig.post(rig.body([user("b")]), key=None)).status == 200
            seen = [turn.headers.get("authorization") for turn in rig.up.turns]
            assert seen == ["Bearer sk-one", None]
