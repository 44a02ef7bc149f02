import hmac
import json
from typing import Any

import pytest

from upstream.access import keys
from upstream.access.keys import BadKeysError, Keyring, Made, entry_json, entry_toml, make, read_keys, shown
from wire.errors import ApiError

ENTRY = {"name": "a", "id": "00112233aabbccdd", "hash": "ab" * 32}


def refused(ring: Keyring, authorization: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ring.find(authorization)
    assert caught.value.status == 401
    assert caught.value.headers == {"www-authenticate": "Bearer"}
    return caught.value


def bad(**change: Any) -> str:
    with pytest.raises(BadKeysError) as caught:
        read_keys(json.dumps({"keys": [ENTRY | change]}))
    return str(caught.value)


@pytest.fixture
def made() -> Made:
    return make("team")


def test_each_key_is_new_and_its_entry_does_not_hold_it(made: Made) -> None:
    assert make("team").key != made.key
    assert made.key.rpartition("-")[2] not in entry_toml(made.entry) + entry_json(made.entry) + repr(made)


def test_an_entry_in_either_form_admits_its_key_and_no_other(made: Made) -> None:
    for text in (entry_toml(made.entry), f'{{"keys": [{entry_json(made.entry)}]}}'):
        ring = read_keys(text)
        assert ring.find(f"Bearer {made.key}") == made.entry
        assert ring.find(f"bearer  {made.key} ") == made.entry
        refused(ring, f"Bearer {make('team').key}")


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_shown_of_a_new_key_is_enough_to_use_it(as_json: bool) -> None:  # noqa: FBT001 - a parameter
    key, blank, *entry = shown("team", as_json=as_json)
    text = "\n".join(entry)
    ring = read_keys(f'{{"keys": [{text}]}}' if as_json else text)

    assert blank == ""
    assert ring.find(f"Bearer {key.removeprefix('key: ')}").name == "team"


def test_a_name_of_any_letters_survives_both_forms() -> None:
    entry = make('Ünï "quoted" \\ name').entry

    assert read_keys(entry_toml(entry)).get(entry.id) == entry
    assert read_keys(f'{{"keys": [{entry_json(entry)}]}}').get(entry.id) == entry


def test_a_missing_key_and_a_wrong_one_are_told_apart_as_the_api_does(made: Made) -> None:
    ring = Keyring([made.entry])

    assert refused(ring, "").code is None
    for wrong in ("Bearer x", "Basic x", made.key, f"Bearer {made.key}x", "Bearer \udcff", f"Bearer {made.key} x"):
        assert refused(ring, wrong).code == "invalid_api_key"


def test_wrong_secret_and_unknown_id_are_the_same_error_after_the_same_work(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Keyring([made.entry])
    work: list[str] = []
    compared: list[int] = []
    digest, compare = keys._digest, hmac.compare_digest

    def digesting(key: str, key_id: str) -> str:
        work.append(key_id)
        return digest(key, key_id)

    def comparing(a: str, b: str) -> bool:
        compared.append(len(b))
        return compare(a, b)

    monkeypatch.setattr(keys, "_digest", digesting)
    monkeypatch.setattr(hmac, "compare_digest", comparing)
    wrong_secret = refused(ring, f"Bearer sk-dw-{made.entry.id}-{'x' * 43}")
    unknown_id = refused(ring, f"Bearer sk-dw-{'0' * 16}-{'x' * 43}")

    assert wrong_secret.http_body() == unknown_id.http_body()
    assert len(work) == 2
    assert compared == [64, 64]


def test_the_same_secret_under_another_id_has_another_hash() -> None:
    assert keys._digest("k", "00" * 8) != keys._digest("k", "01" * 8)


def test_models_and_rates_are_read_from_the_file() -> None:
    full = ENTRY | {"models": ["a", "b"], "requests_per_minute": 3, "tokens_per_minute": 1000}
    key = read_keys(json.dumps({"keys": [full]})).get(ENTRY["id"])

    assert key is not None
    assert (key.requests_per_minute, key.tokens_per_minute) == (3, 1000)
    assert [model for model in "abc" if key.may_use(model)] == ["a", "b"]


def test_a_key_without_models_may_use_all() -> None:
    key = read_keys(json.dumps({"keys": [ENTRY]})).get(ENTRY["id"])

    assert key is not None
    assert key.may_use("any")


def test_what_is_wrong_with_a_file_is_told_by_its_place() -> None:
    assert bad(id="x") == "keys[0]: id has to be 16 hexadecimal digits"
    assert bad(hash="x") == "keys[0]: hash has to be 64 hexadecimal digits"
    assert bad(name="") == "keys[0]: a name is needed"
    assert bad(requests_per_minute=0) == "keys[0]: a rate has to be a positive number"
    assert "`tokens_per_minute" in bad(tokens_per_minute="many") or "$.keys" in bad(tokens_per_minute="many")
    assert "unknown field `rate`" in bad(rate=1)


@pytest.mark.parametrize("text", ["", "{", "keys = ", "[]", "{}", "keys = 3", "sk-dw-secret"])
def test_a_file_of_another_kind_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(BadKeysError) as caught:
        read_keys(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("member", ["id", "name"])
def test_two_entries_may_not_be_taken_for_each_other(member: str) -> None:
    other = ENTRY | {"name": "b", "id": "f" * 16} | {member: ENTRY[member]}
    with pytest.raises(BadKeysError, match=f"two keys have the same {member}"):
        read_keys(json.dumps({"keys": [ENTRY, other]}))


def test_an_empty_list_of_keys_admits_nobody() -> None:
    ring = read_keys('{"keys": []}')

    assert len(ring) == 0
    refused(ring, f"Bearer {make('x').key}")
