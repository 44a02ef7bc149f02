"""The library that gpt-oss comes with, as an oracle: it knows the vocabulary and how a conversation is rendered."""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openai_harmony
import quicktok

PUBLISHED = {
    "o200k_harmony": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""SHA-256 of the files in which these vocabularies are published."""
_ORDINARY = {"o200k_harmony": 199_998, "cl100k_base": 100_256}
_FOLDER = "TIKTOKEN_ENCODINGS_BASE"


def published(name: str) -> bytes:
    """A vocabulary in the form in which it is published, out of the package that we use."""
    encoding = quicktok.get_encoding(name)
    lines = (
        b"%b %d\n" % (base64.b64encode(encoding.decode_single_token_bytes(token)), token)
        for token in range(_ORDINARY[name])
    )
    return b"".join(lines)


@cache
def oracle() -> Any:
    """The encoding of gpt-oss."""
    data = published("o200k_harmony")
    assert hashlib.sha256(data).hexdigest() == PUBLISHED["o200k_harmony"]
    before = os.environ.get(_FOLDER)
    with TemporaryDirectory() as folder:
        (Path(folder) / "o200k_base.tiktoken").write_bytes(data)
        os.environ[_FOLDER] = folder
        try:
            return openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
        finally:
            os.environ.pop(_FOLDER)
            if before is not None:
                os.environ[_FOLDER] = before
