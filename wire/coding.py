"""Content codings of request bodies, undone with a bound: a small body may stand for a huge one."""

from __future__ import annotations

import sys
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

import brotli

from wire.errors import ApiError, invalid_request

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_LAYERS = 2
_MAX_MEMBERS = 64
"""Members or frames in one body: each costs a decoder, and a copy of what was given to the last beyond its end."""
PIECE = 256 * 1024
"""Bytes given to a decoder at once, and so the most that such a copy can be."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class BodyError(Exception):
    """A body that cannot be served: `code` says why in one word, `error` is what the client is told."""

    def __init__(self, code: str, error: ApiError) -> None:
        super().__init__(code)
        self.code = code
        self.error = error


class _Corrupt(Exception):
    pass


class _TooLarge(Exception):
    pass


class _Stream(Protocol):
    def decompress(self, data: memoryview, most: int, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Decoder(Protocol):
    def __call__(self, data: bytes, limit: int) -> bytes: ...


def decode(body: bytes, encodings: str, limit: int) -> bytes:
    """The body without its Content-Encoding (RFC 9110, 8.4), at most `limit` bytes. Raises `BodyError`."""
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in {"", "identity"}]
    if len(names) > _MAX_LAYERS or any(name not in _DECODERS for name in names):
        raise BodyError(
            "unsupported_encoding",
            invalid_request(
                "Unsupported Content-Encoding. Supported are gzip, deflate, br and zstd.",
                code="unsupported_content_encoding",
                status=415,
            ),
        )
    try:
        for name in reversed(names):
            body = _DECODERS[name](body, limit)
    except _TooLarge:
        raise too_large(limit) from None
    except _Corrupt:
        raise BodyError(
            "invalid_encoding",
            invalid_request(
                "The request body does not decode by its Content-Encoding.", code="invalid_content_encoding"
            ),
        ) from None
    return body


def too_large(limit: int) -> BodyError:
    """The error of a body that is larger than `limit` bytes."""
    message = f"The request body is larger than the limit of {limit} bytes."
    return BodyError("body_too_large", invalid_request(message, code="request_too_large", status=413))


def _several(start: Callable[[], _Stream]) -> _Decoder:
    """A decoder of members (gzip: RFC 1952, 2.2) or frames (zstd: RFC 8878, 3.1), one after another."""

    def decoded(data: bytes, limit: int) -> bytes:
        found = BytesIO()
        view, at = memoryview(data), 0
        for _ in range(_MAX_MEMBERS):
            stream = start()
            while not stream.eof:
                piece = view[at : at + PIECE]
                if not piece:
                    raise _Corrupt
                try:
                    found.write(stream.decompress(piece, limit - found.tell() + 1))
                except (zlib.error, zstd.ZstdError):
                    raise _Corrupt from None
                if found.tell() > limit:
                    raise _TooLarge
                at += len(piece)
            at -= len(stream.unused_data)
            if at == len(view):
                return found.getvalue()
        raise _Corrupt

    return decoded


def _zlib(window: int) -> _Decoder:
    return _several(lambda: zlib.decompressobj(window))


def _deflate(data: bytes, limit: int) -> bytes:
    """`deflate` is the zlib format; some senders mean the bare one."""
    try:
        return _zlib(zlib.MAX_WBITS)(data, limit)
    except _Corrupt:
        return _zlib(-zlib.MAX_WBITS)(data, limit)


def _brotli(data: bytes, limit: int) -> bytes:
    decoder = brotli.Decompressor()
    try:
        found = decoder.process(data, output_buffer_limit=limit + 1)
        while len(found) <= limit and not decoder.is_finished() and not decoder.can_accept_more_data():
            found += decoder.process(b"", output_buffer_limit=limit + 1 - len(found))
    except brotli.error:
        raise _Corrupt from None
    if len(found) > limit:
        raise _TooLarge
    if not decoder.is_finished():
        raise _Corrupt
    return bytes(found)


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _zlib(_GZIP_WINDOW),
    "x-gzip": _zlib(_GZIP_WINDOW),
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _several(zstd.ZstdDecompressor),
}
