import gzip
import zlib

import brotli
import pytest
from backports import zstd

from upstream.scripted.coding import decoded


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("", b"text"),
        ("identity", b"text"),
        ("gzip", gzip.compress(b"text")),
        ("Deflate", zlib.compress(b"text")),
        ("br", brotli.compress(b"text")),
        (" zstd ", zstd.compress(b"text")),
    ],
)
def test_a_body_is_read_in_its_coding(coding: str, body: bytes) -> None:
    assert decoded(body, coding) == b"text"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "rot13"])
def test_a_body_in_no_known_coding_is_refused(coding: str) -> None:
    with pytest.raises(ValueError, match="coding"):
        decoded(b"text", coding)
