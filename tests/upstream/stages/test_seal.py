import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.stages.seal import COMPACTION, Sealer
from wire.errors import ApiError


@given(st.text())
def test_what_was_sealed_is_opened_again(text: str) -> None:
    sealer = Sealer("k")

    assert sealer.open(sealer.seal(text), param="x") == text


def test_two_seals_of_one_text_differ_and_show_nothing_of_it() -> None:
    sealer = Sealer()
    first, second = sealer.seal("plain words"), sealer.seal("plain words")

    assert first != second
    assert b"plain" not in base64.urlsafe_b64decode(first)


def test_servers_with_one_secret_open_each_others_seals() -> None:
    assert Sealer("same").open(Sealer("same").seal("t"), param="x") == "t"


@pytest.mark.parametrize("blob", ["", "gAAAAABo", "not base64 %%", "AQ==", "Ä", "A" * 5])
def test_a_blob_of_another_make_is_refused_by_name(blob: str) -> None:
    with pytest.raises(ApiError) as caught:
        Sealer("k").open(blob, param="input[3].encrypted_content")

    assert caught.value.code == "invalid_encrypted_content"
    assert caught.value.status == 400
    assert caught.value.param == "input[3].encrypted_content"


def test_a_blob_of_another_key_or_a_changed_one_is_refused() -> None:
    blob = Sealer("k").seal("text")
    flipped = blob[:-8] + ("A" if blob[-8] != "A" else "B") + blob[-7:]

    for sealer, given_blob in ((Sealer("other"), blob), (Sealer(), blob), (Sealer("k"), flipped)):
        with pytest.raises(ApiError):
            sealer.open(given_blob, param="x")


def test_a_blob_for_one_purpose_is_none_for_another() -> None:
    sealer = Sealer("k")

    assert sealer.open(sealer.seal("t", COMPACTION), param="x", purpose=COMPACTION) == "t"
    with pytest.raises(ApiError):
        sealer.open(sealer.seal("t", COMPACTION), param="x")
