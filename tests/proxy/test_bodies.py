"""Request bodies, read within the limit on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy import bodies
from wire.coding import BodyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_body_is_read_up_to_the_limit_exactly() -> None:
    assert await bodies.read(chunks(b"ab", b"", b"cd"), None, 4) == b"abcd"
    assert await bodies.read(chunks(b"abcd"), 4, 4) == b"abcd"


@pytest.mark.parametrize("length", [None, 4])
async def test_one_byte_more_than_the_limit_is_refused_whatever_the_length_said(length: int | None) -> None:
    with pytest.raises(BodyError) as raised:
        await bodies.read(chunks(b"ab", b"cde"), length, 4)
    assert (raised.value.code, raised.value.error.status) == ("body_too_large", 413)


async def test_a_length_above_the_limit_is_refused_before_anything_is_read() -> None:
    source = chunks(b"a")
    with pytest.raises(BodyError):
        await bodies.read(source, 5, 4)
    assert await anext(source) == b"a"
