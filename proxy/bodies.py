"""Request bodies, read within the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wire.coding import too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterable


async def read(chunks: AsyncIterable[bytes], length: int | None, limit: int) -> bytes:
    """All bytes of a body as they stand on the wire. Raises `BodyError` beyond `limit`."""
    if length is not None and length > limit:
        raise too_large(limit)
    parts: list[bytes] = []
    total = 0
    async for chunk in chunks:
        total += len(chunk)
        if total > limit:
            raise too_large(limit)
        parts.append(chunk)
    return b"".join(parts)
