"""Content codings of request bodies, undone here so that the size on the wire stays known."""

from __future__ import annotations

import sys
import zlib

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP_OR_ZLIB = 47


def decoded(body: bytes, coding: str) -> bytes:
    """The body without its coding. Raises `ValueError` for an unknown coding and for a body that is not in it."""
    name = coding.strip().lower()
    try:
        if name in {"", "identity"}:
            return body
        if name in {"gzip", "deflate"}:
            return zlib.decompress(body, _GZIP_OR_ZLIB)
        if name == "br":
            return bytes(brotli.decompress(body))
        if name == "zstd":
            return zstd.decompress(body)
    except (zlib.error, brotli.error, zstd.ZstdError):
        pass
    raise ValueError("unknown coding, or a body that is not in it")
