"""Content codings of request bodies, undone with a bound: a small body may stand for a huge one."""

from __future__ import annotations

import sys
import zlib
from typing import Final

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODINGS: Final = frozenset({"gzip", "deflate", "br", "zstd"})
_GZIP_OR_ZLIB: Final = 47
_RAW_DEFLATE: Final = -15


class TooLarge(ValueError):
    """The body is longer than allowed once it is decoded."""


class Undecodable(ValueError):
    """The body is not what its coding says, or ends in the middle."""


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """The body without its coding, one of `CODINGS`. Raises `TooLarge` beyond `limit` bytes, `Undecodable`."""
    try:
        data, ended = _decode(body, coding, limit)
    except (zlib.error, brotli.error, zstd.ZstdError, EOFError):
        raise Undecodable from None
    if len(data) > limit:
        raise TooLarge
    if not ended:
        raise Undecodable
    return data


def _decode(body: bytes, coding: str, limit: int) -> tuple[bytes, bool]:
    most = limit + 1
    if coding == "br":
        reader = brotli.Decompressor()
        data = bytes(reader.process(body, output_buffer_limit=most))
        while len(data) <= limit and not reader.can_accept_more_data():
            data += bytes(reader.process(b"", output_buffer_limit=most))
        return data, reader.is_finished()
    if coding == "zstd":
        frames = zstd.ZstdDecompressor()
        data = frames.decompress(body, most)
        return data, frames.eof and not frames.unused_data
    # "deflate" means zlib's format, and some send the bare stream.
    bare = coding == "deflate" and not _has_zlib_header(body)
    inflater = zlib.decompressobj(_RAW_DEFLATE if bare else _GZIP_OR_ZLIB)
    data = inflater.decompress(body, most)
    return data, inflater.eof and not inflater.unused_data


def _has_zlib_header(body: bytes) -> bool:
    return len(body) > 1 and body[0] & 0x0F == zlib.DEFLATED and (body[0] << 8 | body[1]) % 31 == 0
