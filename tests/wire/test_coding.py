"""Every content coding, and what is hostile about codings."""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import TYPE_CHECKING
from unittest.mock import patch

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import coding
from wire.coding import PIECE, BodyError, _several, decode

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = b'{"input":"hello"}' * 20
LIMIT = len(BODY)
ANY = 1024


def bare_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


def brotlied(data: bytes) -> bytes:
    return bytes(brotli.compress(data))


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", bare_deflate),
    ("br", brotlied),
    ("zstd", zstd.compress),
]
each_coding = pytest.mark.parametrize(("name", "code"), CODINGS)


def code_of(body: bytes, encodings: str, limit: int = ANY) -> tuple[str, int]:
    with pytest.raises(BodyError) as raised:
        decode(body, encodings, limit)
    assert raised.value.code == str(raised.value)
    return raised.value.code, raised.value.error.status


@pytest.mark.parametrize("encodings", ["", "identity", " Identity ,, identity,"])
def test_a_body_without_a_coding_stays_as_it_is(encodings: str) -> None:
    assert decode(BODY, encodings, 1) is BODY


@each_coding
def test_every_coding_is_undone_by_any_spelling_of_its_name(name: str, code: Callable[[bytes], bytes]) -> None:
    assert decode(code(BODY), name, LIMIT) == BODY
    assert decode(code(BODY), f" identity, {name.upper()} ", LIMIT) == BODY


@each_coding
def test_two_layers_are_undone_the_last_applied_first(name: str, code: Callable[[bytes], bytes]) -> None:
    assert decode(gzip.compress(code(BODY)), f"{name}, gzip", ANY) == BODY


@pytest.mark.parametrize("encodings", ["compress", "gzip;q=1", "gzip, gzip, gzip", "gzip gzip", "zstd, lz4"])
def test_an_unknown_coding_or_a_third_layer_is_415(encodings: str) -> None:
    assert code_of(BODY, encodings) == ("unsupported_encoding", 415)


@each_coding
def test_the_limit_holds_exactly_after_decoding(name: str, code: Callable[[bytes], bytes]) -> None:
    assert decode(code(BODY), name, LIMIT) == BODY
    assert code_of(code(BODY), name, LIMIT - 1) == ("body_too_large", 413)


@each_coding
def test_a_bomb_is_refused_at_the_limit(name: str, code: Callable[[bytes], bytes]) -> None:
    bomb = code(bytes(32 * 1024 * 1024))
    assert len(bomb) < 64 * 1024
    assert code_of(bomb, name) == ("body_too_large", 413)


def test_a_bomb_in_the_outer_layer_is_refused_as_well() -> None:
    assert code_of(gzip.compress(gzip.compress(b"x") + bytes(ANY)), "gzip, gzip") == ("body_too_large", 413)


@each_coding
def test_a_truncated_body_is_400(name: str, code: Callable[[bytes], bytes]) -> None:
    whole = code(BODY)
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        assert code_of(whole[:size], name) == ("invalid_encoding", 400)


@each_coding
def test_garbage_after_the_end_is_400(name: str, code: Callable[[bytes], bytes]) -> None:
    assert code_of(code(BODY) + b"garbage", name) == ("invalid_encoding", 400)


@pytest.mark.parametrize(("name", "code"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_members_and_frames_follow_one_another(name: str, code: Callable[[bytes], bytes]) -> None:
    three = code(BODY[:7]) + code(b"") + code(BODY[7:])
    assert decode(three, name, LIMIT) == BODY
    assert code_of(three, name, LIMIT - 1) == ("body_too_large", 413)


def test_skippable_zstd_frames_are_skipped() -> None:
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decode(skippable + zstd.compress(BODY) + skippable, "zstd", LIMIT) == BODY


@pytest.mark.parametrize(("name", "code"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_a_body_of_countless_empty_members_is_refused_at_once(name: str, code: Callable[[bytes], bytes]) -> None:
    assert code_of(code(b"") * 200_000, name) == ("invalid_encoding", 400)


class Weighed:
    """A decoder that notes what it was given, and what it copied for having ended before."""

    given = copied = 0

    def __init__(self) -> None:
        self._made = zlib.decompressobj(zlib.MAX_WBITS)

    def decompress(self, data: memoryview, most: int) -> bytes:
        Weighed.given += len(data)
        found = self._made.decompress(data, most)
        Weighed.copied += len(self._made.unused_data)
        return found

    @property
    def eof(self) -> bool:
        return self._made.eof

    @property
    def unused_data(self) -> bytes:
        return self._made.unused_data


def test_a_member_costs_no_copy_of_all_that_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Weighed, "given", 0)
    monkeypatch.setattr(Weighed, "copied", 0)
    long = bytes(range(256)) * 16 * 1024
    members = [zlib.compress(b"")] * 40 + [zlib.compress(long, 0)] + [zlib.compress(b"x")] * 20
    body = b"".join(members)
    assert _several(Weighed)(body, len(long) + 20) == long + b"x" * 20
    assert Weighed.copied <= len(members) * PIECE
    assert Weighed.given <= len(body) + Weighed.copied


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(1, 30), st.sampled_from(["gzip", "zstd"]))
def test_where_the_pieces_end_changes_nothing(bodies: list[bytes], piece: int, name: str) -> None:
    code = dict(CODINGS)[name]
    data, whole = b"".join(map(code, bodies)), b"".join(bodies)
    with patch.object(coding, "PIECE", piece):
        assert decode(data, name, max(1, len(whole))) == whole
        assert code_of(data[:-1], name) == ("invalid_encoding", 400)
        if len(whole) > 1:
            assert code_of(data, name, len(whole) - 1) == ("body_too_large", 413)


def test_no_error_repeats_anything_of_the_body() -> None:
    with pytest.raises(BodyError) as raised:
        decode(b"sk-secret", "gzip", ANY)
    assert b"sk-secret" not in raised.value.error.http_body()


@given(
    st.binary(max_size=200) | st.sampled_from(CODINGS).map(lambda coding: coding[1](b"x" * 50)),
    st.sampled_from(["gzip", "deflate", "br", "zstd", "deflate, br", "zstd, gzip"]),
    st.integers(1, 60),
    st.binary(max_size=4),
    st.integers(0, 40),
)
def test_any_bytes_decode_within_the_limit_or_raise_a_body_error(
    data: bytes, encodings: str, limit: int, junk: bytes, at: int
) -> None:
    try:
        code, size = "", len(decode(data[:at] + junk + data[at + len(junk) :], encodings, limit))
    except BodyError as error:
        code, size = error.code, 0
    assert code in {"", "body_too_large", "invalid_encoding"}
    assert size <= limit
