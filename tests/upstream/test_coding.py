import gzip
import sys
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.coding import TooLarge, Undecodable, decoded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def _coded(coding: str, body: bytes) -> bytes:
    if coding == "br":
        return bytes(brotli.compress(body))
    if coding == "zstd":
        return zstd.compress(body)
    return gzip.compress(body) if coding == "gzip" else zlib.compress(body)


_codings = pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])


@_codings
@given(st.binary(max_size=2000))
def test_what_was_coded_is_read_again(coding: str, body: bytes) -> None:
    assert decoded(_coded(coding, body), coding, 2000) == body


def test_deflate_without_its_header_is_read_as_well() -> None:
    squeeze = zlib.compressobj(wbits=-15)

    assert decoded(squeeze.compress(b"text" * 9) + squeeze.flush(), "deflate", 100) == b"text" * 9


@_codings
def test_a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not(coding: str) -> None:
    assert len(decoded(_coded(coding, b"x" * 1000), coding, 1000)) == 1000
    with pytest.raises(TooLarge):
        decoded(_coded(coding, b"x" * 1001), coding, 1000)


@_codings
def test_a_bomb_is_refused(coding: str) -> None:
    with pytest.raises(TooLarge):
        decoded(_coded(coding, b"\0" * 20_000_000), coding, 10_000)


@_codings
def test_a_body_that_ends_in_the_middle_or_is_something_else_is_refused(coding: str) -> None:
    for body in (_coded(coding, b"some text " * 50)[:-6], b"plain text", b""):
        with pytest.raises(Undecodable):
            decoded(body, coding, 1000)
