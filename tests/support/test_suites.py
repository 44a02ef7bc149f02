import re

import pytest

from tests.support.suites import LOCK, SDK, pinned

_LOCKED = """\
first==1.0 \\
    --hash=sha256:aa
openai[aiohttp]==3.5 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via deltawire
openai-agents==1 \\
    --hash=sha256:dd
"""


def test_the_lines_of_one_package_are_found_without_its_extras_and_without_those_of_its_namesakes() -> None:
    assert pinned(_LOCKED, "openai") == "openai==3.5 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    assert pinned(_LOCKED, "first") == "first==1.0 \\\n    --hash=sha256:aa\n"


def test_a_package_that_is_not_pinned_is_an_error() -> None:
    with pytest.raises(LookupError):
        pinned(_LOCKED, "second")


def test_the_sdk_is_pinned_with_a_digest_of_its_source() -> None:
    assert re.match(
        r"openai==[\d.]+ \\\n(    --hash=sha256:[0-9a-f]{64} \\\n)+    --hash=", pinned(LOCK.read_text(), SDK)
    )
