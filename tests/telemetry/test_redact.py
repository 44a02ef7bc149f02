import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry import redact
from telemetry.turn import TurnRecord

KEY = "sk-proj-abcdefgh12345678"


HIDDEN = """authorization Authorization proxy-authorization Cookie set-cookie api_key x-api-key apiKey OPENAI_API_KEY secret
    DELTAWIRE_SECRET password access_token accessToken token credentials input output instructions body messages
    arguments encrypted_content tools headers message"""
KEPT = "event level timestamp usage_input usage_output input_tokens items_total link reason model tenant"


@pytest.mark.parametrize("key", HIDDEN.split())
def test_a_key_that_names_a_credential_or_content_loses_its_value(key: str) -> None:
    assert redact.event({key: "v"}) == {key: redact.REDACTED}
    assert redact.event({"outer": [{key: {"deep": 1}}]}) == {"outer": [{key: redact.REDACTED}]}


@pytest.mark.parametrize("key", KEPT.split())
def test_a_harmless_key_keeps_its_value(key: str) -> None:
    assert redact.event({key: "v"}) == {key: "v"}


def test_all_fields_of_a_turn_survive() -> None:
    record = TurnRecord("req_1", transport="full", reason="first_turn", retries=("not_written",), link=3).as_dict()
    assert redact.event(record) == record


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"refused for {KEY}.", "refused for [redacted]."),
        (f"authorization: Bearer {KEY}", "authorization: Bearer [redacted]"),
        ("BASIC dXNlcjpwYXNz", "BASIC [redacted]"),
        ("redis://user:pass@host:6379/0", "redis://[redacted]@host:6379/0"),
        ("GET https://host/v1?api-version=1&key=abc failed", "GET https://host/v1?[redacted] failed"),
        ("<Task exception=ValueError('a (prompt)\n')>", "<Task exception=ValueError"),
        ("task-1 asks the basics of risk-free work", "task-1 asks the basics of risk-free work"),
        ("http://127.0.0.1:8787/v1/responses", "http://127.0.0.1:8787/v1/responses"),
    ],
)
def test_text_loses_credentials_wherever_they_stand(given: str, shown: str) -> None:
    assert redact.text(given) == shown


def test_long_text_is_cut_after_the_search_so_that_no_half_of_a_key_stays() -> None:
    shown = redact.text("x" * (redact.MAX_TEXT - 10) + " " + KEY)
    assert len(shown) <= redact.MAX_TEXT
    assert "sk-proj" not in shown


def test_a_text_of_megabytes_is_cut_before_the_search() -> None:
    assert len(redact.text("x" * 5_000_000)) == redact.MAX_TEXT


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, None),
        (True, True),
        (0.5, 0.5),
        (2**63, 2**63),
        (2**64, "0x10000000000000000"),
        (b"prompt", "<6 bytes>"),
        ("\ud800", "?"),
        ((1, "a"), [1, "a"]),
        ({1, 2}, "<set>"),
        (ValueError("prompt"), "<ValueError>"),
        ([[[[["deep"]]]]], [[[["<list>"]]]]),
    ],
)
def test_a_value_becomes_json_and_an_unknown_type_its_name(given: object, shown: object) -> None:
    assert redact.value(given) == shown


def test_long_lists_and_mappings_are_cut() -> None:
    assert redact.value(list(range(100))) == list(range(redact.MAX_PARTS))
    assert len(redact.event({"m": {f"k{number}": 1 for number in range(100)}})["m"]) == redact.MAX_PARTS  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["a prompt as key", "k" * 65, "", "ключ", "a\n"])
def test_a_key_that_is_no_name_is_hidden_with_its_value(key: str) -> None:
    assert redact.event({key: "v"}) == {"<str>": redact.REDACTED}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_whatever_is_logged_can_be_rendered(event: dict[str, object]) -> None:
    orjson.dumps(redact.event(event))


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8")), st.text(alphabet=st.characters(codec="utf-8")))
def test_no_key_survives_between_any_two_texts(before: str, after: str) -> None:
    assert KEY not in redact.text(f"{before} {KEY} {after}")
