import subprocess
import sys

import pytest

from telemetry import reasons

LISTS = {
    "TRANSPORTS": reasons.TRANSPORTS,
    "REASONS": reasons.REASONS,
    "RETRY_CAUSES": reasons.RETRY_CAUSES,
    "DIALS": reasons.DIALS,
    "GATES": reasons.GATES,
    "LINK_ENDS": reasons.LINK_ENDS,
    "SIDECAR_ERRORS": reasons.SIDECAR_ERRORS,
    "STATE_OPERATIONS": reasons.STATE_OPERATIONS,
}
PUBLISHED = """first_turn unknown_head envelope_changed history_diverged reasoning_dropped output_reordered head_busy link_lost
    link_retired upstream_forgot client_state too_large no_websocket breaker_open disabled one_shot links_exhausted
    dial_failed dials_limited context_mismatch"""


@pytest.mark.parametrize("name", LISTS)
def test_every_code_is_a_plain_word_with_one_sentence_of_meaning(name: str) -> None:
    for code, meaning in LISTS[name].items():
        assert code.replace("_", "").isalpha()
        assert code.islower()
        assert meaning[0].isupper()
        assert meaning.endswith(".")
        assert ". " not in meaning
        assert "\n" not in meaning


@pytest.mark.parametrize("name", LISTS)
def test_no_list_claims_the_words_that_stand_for_anything_else(name: str) -> None:
    assert reasons.OTHER not in LISTS[name]
    assert reasons.NO_TRANSPORT not in LISTS[name]


def test_published_reasons_keep_their_names() -> None:
    assert set(PUBLISHED.split()) <= set(reasons.REASONS)


def test_a_list_cannot_be_changed_at_run_time() -> None:
    with pytest.raises(TypeError):
        reasons.REASONS["new"] = "x"  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "expected"), [("first_turn", "first_turn"), ("", "other"), ("First_turn", "other"), ("x" * 1000, "other")]
)
def test_an_unknown_code_becomes_other(code: str, expected: str) -> None:
    assert reasons.bounded(code, reasons.REASONS) == expected


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "invalid-prompt.v2", "404", "x" * 64])
def test_a_plain_word_of_somebody_else_is_told_as_it_is(code: str) -> None:
    assert reasons.word(code) == code


@pytest.mark.parametrize("code", ["", "x" * 65, "Boom", "your key sk-1", "boom\n", "bööm", "{}"])
def test_what_may_be_content_is_told_as_other(code: str) -> None:
    assert reasons.word(code) == "other"


def test_the_vocabulary_loads_no_library() -> None:
    code = (
        "import sys, telemetry.reasons; print([m for m in sys.modules if m.split('.')[0] in "
        "('asyncio', 'aiohttp', 'structlog', 'prometheus_client', 'opentelemetry', 'orjson')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
