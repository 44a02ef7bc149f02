from __future__ import annotations

from typing import Any

import pytest

from state import context as chains
from tests.upstream.helpers import SEALER, WEATHER, members
from upstream.kept.store import Store, Stored
from upstream.stages import proof
from upstream.stages.pipeline import Context
from upstream.turns.asked import Kept
from upstream.turns.reading import Read, Reader
from upstream.turns.request import read_request
from upstream.websocket.lane import Lane
from wire.errors import ApiError

_ME, _YOU = b"me", b"you"


def _reader(*, reuses: bool = True, proves: bool = False) -> Reader:
    return Reader(SEALER, Store(1_000_000), Context(), reuses=reuses, proves=proves)


def _read(reader: Reader, lane: Lane | None = None, owner: bytes = _ME, *, bare: bool = False, **values: Any) -> Read:
    return reader.read(read_request(members(model="m", **values)), owner, lane, bare=bare)


def _keep(reader: Reader, read: Read, name: str) -> None:
    reader._store.put(Stored(name, _ME, None, b"{}", read.listed, (), read.context))


def _on_lane(lane: Lane, read: Read, name: str) -> None:
    lane.settled(Kept(name, read.context, read.asked))


def test_over_http_a_stored_response_of_the_same_owner_is_gone_on_from() -> None:
    reader = _reader()
    first = _read(reader, input="hi")
    _keep(reader, first, "resp_1")

    second = _read(reader, input="more", previous_response_id="resp_1")
    assert second.parent is first.context
    assert [item.role for item in second.context.items] == ["user", "user"]
    for wanted, owner in (("resp_2", _ME), ("resp_1", _YOU)):
        with pytest.raises(ApiError) as caught:
            _read(reader, owner=owner, input="more", previous_response_id=wanted)
        assert caught.value.code == "previous_response_not_found"


def test_a_lane_is_asked_before_the_store() -> None:
    reader, lane = _reader(), Lane()
    _keep(reader, _read(reader, input="stored"), "resp_1")
    on_lane = _read(reader, lane, input="kept")
    _on_lane(lane, on_lane, "resp_1")

    assert _read(reader, lane, input="more", previous_response_id="resp_1").parent is on_lane.context


def test_tools_and_instructions_that_the_lane_knows_are_not_read_again() -> None:
    reader, lane = _reader(), Lane()
    first = _read(reader, lane, input="hi", tools=[WEATHER], instructions="be")
    _on_lane(lane, first, "resp_1")
    second = _read(reader, lane, input="x", tools=[WEATHER], instructions="be", previous_response_id="resp_1")

    assert second.context.resolved.offer is first.context.resolved.offer
    assert second.head is first.head
    assert second.beside == first.beside


def test_without_reuse_a_stored_conversation_is_folded_anew() -> None:
    reader = _reader(reuses=False)
    first = _read(reader, input="hi")
    _keep(reader, first, "resp_1")
    second = _read(reader, input="more", previous_response_id="resp_1")

    assert second.parent is not first.context
    assert second.parent is not None
    assert second.parent.rendered == first.context.rendered


def test_only_what_begins_on_a_websocket_is_proven() -> None:
    reader = _reader(proves=True)

    assert _read(reader, Lane(), input="hi").context.proof not in (proof.NONE, chains.START)
    assert _read(reader, input="hi").context.proof == proof.NONE
    assert _read(_reader(), Lane(), input="hi").context.proof == proof.NONE


def test_nothing_to_read_is_refused_unless_the_request_may_be_bare() -> None:
    with pytest.raises(ApiError) as caught:
        _read(_reader())

    assert caught.value.param == "input"
    assert len(_read(_reader(), bare=True).context.items) == 0
