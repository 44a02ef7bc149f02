import pytest

from upstream.websocket.envelope_cache import EnvelopeCache, refuse
from wire.errors import ApiError
from wire.extensions import ENVELOPE_FIELD, ENVELOPE_WORTHWHILE, envelope_digest

_TOOLS = b'["' + b"t" * ENVELOPE_WORTHWHILE + b'"]'


def _cache(entries: int = 64, limit: int = 1_000_000) -> EnvelopeCache:
    return EnvelopeCache(entries=entries, limit=limit)


def _by_digest(**members: bytes) -> dict[str, bytes]:
    inner = ",".join(f'"{name}":"{envelope_digest(raw)}"' for name, raw in members.items())
    return {"model": b'"m"', ENVELOPE_FIELD: b"{" + inner.encode() + b"}"}


def _refused(cache: EnvelopeCache, members: dict[str, bytes]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        cache.take(members)
    return caught.value


def test_a_member_seen_once_is_restored_byte_for_byte() -> None:
    cache = _cache()
    cache.take({"tools": _TOOLS})

    assert cache.take(_by_digest(tools=_TOOLS)) == {"model": b'"m"', "tools": _TOOLS}


def test_members_without_digests_pass_as_they_are() -> None:
    members = {"model": b'"m"', "tools": b"[]"}

    assert _cache().take(members) == members


def test_a_digest_that_was_never_seen_is_a_conflict_that_names_the_member() -> None:
    error = _refused(_cache(), _by_digest(instructions=_TOOLS))

    assert (error.status, error.code, error.param) == (409, "deltawire_envelope_unknown", "instructions")


def test_small_members_are_not_remembered() -> None:
    cache = _cache()
    cache.take({"tools": b"[]"})

    assert _refused(cache, _by_digest(tools=b"[]")).status == 409


def test_only_the_members_of_the_extension_are_remembered() -> None:
    cache = _cache()
    cache.take({"input": _TOOLS})

    assert _refused(cache, _by_digest(tools=_TOOLS)).status == 409


def test_what_one_member_brought_may_stand_for_another() -> None:
    cache = _cache()
    cache.take({"tools": _TOOLS})

    assert cache.take(_by_digest(text=_TOOLS))["text"] == _TOOLS


@pytest.mark.parametrize(("entries", "limit"), [(2, 1_000_000), (64, 2 * len(_TOOLS) + 10)])
def test_the_least_recently_used_leaves_when_a_bound_is_reached(entries: int, limit: int) -> None:
    cache = _cache(entries, limit)
    first, second, third = (_TOOLS.replace(b"t", letter) for letter in (b"a", b"b", b"c"))
    cache.take({"tools": first})
    cache.take({"tools": second})
    cache.take(_by_digest(tools=first))
    cache.take({"tools": third})

    assert cache.take(_by_digest(tools=first))["tools"] == first
    assert cache.take(_by_digest(tools=third))["tools"] == third
    assert _refused(cache, _by_digest(tools=second)).status == 409


def test_a_member_larger_than_the_whole_cache_is_not_remembered() -> None:
    cache = _cache(limit=ENVELOPE_WORTHWHILE)
    cache.take({"tools": _TOOLS})

    assert _refused(cache, _by_digest(tools=_TOOLS)).status == 409


def test_a_member_may_not_come_in_full_and_as_a_digest() -> None:
    error = _refused(_cache(), _by_digest(tools=_TOOLS) | {"tools": _TOOLS})

    assert (error.status, error.param) == (400, "deltawire_envelope.tools")


def test_no_other_member_may_come_as_a_digest() -> None:
    assert _refused(_cache(), _by_digest(input=_TOOLS)).status == 400


@pytest.mark.parametrize("value", [b"[]", b'"x"', b'{"tools":1}', b"null"])
def test_digests_of_the_wrong_shape_are_refused(value: bytes) -> None:
    assert _refused(_cache(), {ENVELOPE_FIELD: value}).param == ENVELOPE_FIELD


def test_a_refused_frame_still_teaches_its_own_members() -> None:
    cache = _cache()
    _refused(cache, _by_digest(tools=b"x" * 300) | {"instructions": _TOOLS})

    assert cache.take(_by_digest(tools=_TOOLS))["tools"] == _TOOLS


def test_where_digests_are_not_offered_a_frame_with_one_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        refuse(_by_digest(tools=_TOOLS))

    assert (caught.value.status, caught.value.code) == (400, "unknown_parameter")
    assert refuse({"model": b'"m"'}) == {"model": b'"m"'}
