"""That a lane which lost, doubled or changed anything is found out before a token is generated, and no other is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.commit import head_of
from state.context import START, after, bound
from state.digest import Keyed
from state.envelope import Envelope
from state.heads import HeadIndex
from state.match import Matcher
from tests.upstream.helpers import SEALER, items, members
from upstream.engine import Delta, End, Start, Stop
from upstream.engines.sim import Sim
from upstream.kept.store import Store
from upstream.stages import pipeline, proof
from upstream.turns.admit import Admission, Turn
from upstream.websocket.lane import Lane
from wire.errors import ApiError
from wire.extensions import CONTEXT_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from upstream.stages.items import Item
    from upstream.turns.asked import Kept

Json = dict[str, Any]
ME, NONCE, KEYED = b"me", b"n" * 16, Keyed(b"secret")
TENANT = KEYED.tenant([ME])
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a": 1}', "status": "completed"}  # fmt: skip
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
POOL = ["a", "b", {"role": "user", "content": [{"type": "input_text", "text": "c"}]}, CALL, OUTPUT]


def admission() -> Admission:
    return Admission(engine=Sim(), sealer=SEALER, store=Store(10**7), now=lambda: 7, proves=True)


def finish(server: Admission, turn: Turn) -> Kept:
    turn.answer.begin()
    for part in (Start("reasoning"), Delta("hm"), End(), Start("message"), Delta("yes"), End()):
        turn.answer.add(part)
    turn.answer.finish(Stop(), 8)
    kept = server.settle(turn)
    assert kept is not None
    return kept


class Pair:
    """A sidecar's memory and a server's lane, and the conversation that one has through the other."""

    def __init__(self, *, store: bool = False, sealed: bool = True) -> None:
        self.server, self.lane = admission(), Lane()
        self.index = HeadIndex(10**7)
        self.matcher = Matcher(KEYED, self.index)
        self.asks = {"store": store, "include": ["reasoning.encrypted_content"] if sealed else []}
        self.history: list[Json] = []
        self.deltas = 0

    def turn(self, *new: Json, whole: bool = False) -> None:
        """One turn, a delta where there is something to continue. Raises `ApiError`."""
        sent = [*self.history, *new]
        reading = self.matcher.read(TENANT, json.dumps(sent).encode())
        match = None if whole or not reading.matches else reading.matches[0]
        context = reading.context if match is None else after(KEYED, match)
        assert context is not None
        said = {"model": "sim", **self.asks, "input": sent if match is None else [json.loads(raw) for raw in match.new]}
        if match is not None:
            said["previous_response_id"] = match.head.response_id
            self.deltas += 1
        claim = proof.Claim(bound(NONCE, context), NONCE)
        turn = self.server.admit(members(**said), ME, self.lane, claim)
        kept = finish(self.server, turn)
        self.lane.settled(kept)
        answer = [json.loads(item.raw) for item in turn.answer.items]
        facts: dict[str, Any] = {"tenant": TENANT, "envelope": Envelope(()), "stored": False, "link": 1}
        forms = [[item.raw] for item in turn.answer.items]
        head = head_of(KEYED, reading, response_id=kept.id, answer=forms, context=context, **facts)
        assert head is not None
        self.index.add(head)
        self.history = [*sent, *map(_echoed, answer)]


def _echoed(item: Json) -> Json:
    """As clients echo it that drop what servers add."""
    dropped = {"status"} if item["type"] == "reasoning" else {"id", "status"}
    return {name: value for name, value in item.items() if name not in dropped}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


# The stage


@given(st.lists(st.sampled_from(POOL), max_size=6), st.integers(0, 6))
def test_a_chain_is_a_fold(values: list[Any], at: int) -> None:
    read = items(*values)
    assert proof.extend(proof.extend(proof.BEGUN, read[:at]), read[at:]) == proof.extend(proof.BEGUN, read)
    assert proof.extend(proof.NONE, read) == proof.NONE


def test_what_was_sent_in_the_place_of_an_item_is_what_counts() -> None:
    (item, reference) = items("a", {"type": "item_reference", "id": "x"})
    named = replace(item, sent=reference.raw)
    assert proof.extend(proof.BEGUN, [named]) == proof.extend(proof.BEGUN, [reference])
    assert proof.extend(proof.BEGUN, [named]) != proof.extend(proof.BEGUN, [item])


def test_a_chain_that_does_not_begin_the_conversation_is_compared_with_nothing() -> None:
    proof.check(proof.Claim("0" * 64, NONCE), proof.NONE)
    proof.check(None, START)


@pytest.mark.parametrize("digest", ["", "0" * 64, bound(b"m" * 16, START), bound(NONCE, START).upper(), "\ud800"])
def test_a_claim_of_anything_else_is_refused_without_a_word_of_what_is_here(digest: str) -> None:
    proof.check(proof.Claim(bound(NONCE, START), NONCE), START)
    with pytest.raises(ApiError) as caught:
        proof.check(proof.Claim(digest, NONCE), START)
    error = caught.value
    assert (error.status, error.code, error.param) == (409, "context_mismatch", CONTEXT_FIELD)
    assert bound(NONCE, START) not in error.message


def test_a_claim_is_taken_out_of_the_frame_where_claims_are_compared() -> None:
    found = {CONTEXT_FIELD: b'"abc"', "input": b"[]"}
    assert proof.claimed(found, NONCE) == proof.Claim("abc", NONCE)
    assert found == {"input": b"[]"}
    assert proof.claimed(found, NONCE) is None


@pytest.mark.parametrize(("raw", "nonce", "code"), [(b"1", NONCE, "invalid_type"), (b'"a"', b"", "unknown_parameter")])
def test_a_claim_that_is_none_or_that_nobody_compares_is_refused(raw: bytes, nonce: bytes, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        proof.claimed({CONTEXT_FIELD: raw}, nonce)
    assert (caught.value.status, caught.value.code) == (400, code)


# Both ends


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("sealed", [True, False])
def test_both_ends_agree_on_every_turn_of_an_honest_lane(*, store: bool, sealed: bool) -> None:
    pair = Pair(store=store, sealed=sealed)
    pair.turn(user("a"))
    for text in "bcdef":
        pair.turn(user(text))
    pair.turn(user("again"), whole=True)
    pair.turn(user("g"))
    assert pair.deltas == 6


def test_a_conversation_is_the_same_after_a_compaction_that_nobody_but_the_server_sees() -> None:
    pair = Pair()
    pair.asks["context_management"] = [{"type": "compaction", "compact_threshold": 1000}]
    pair.turn(user("a"))
    for name in ("c1", "c2", "c3"):
        step = [CALL | {"id": f"fc_{name}", "call_id": name}, OUTPUT | {"call_id": name, "output": "word " * 3000}]
        pair.turn(*step, user("go on"))
    assert pair.deltas == 3
    assert any(item.get("type") == "compaction" for item in pair.history)


FAULTS: dict[str, Callable[[list[Item], int], list[Item]]] = {
    "loses one": lambda kept, at: [*kept[:at], *kept[at + 1 :]],
    "doubles one": lambda kept, at: [*kept[:at], replace(kept[at], id=None), *kept[at:]],
    "swaps two": lambda kept, at: [*kept[:at], *reversed(kept[at : at + 2]), *kept[at + 2 :]],
    "forgets the beginning": lambda kept, at: kept[at + 1 :],
}


@settings(max_examples=60)
@given(
    fault=st.sampled_from(sorted(FAULTS)),
    before=st.integers(1, 4),
    at=st.integers(0, 30),
)
def test_a_lane_that_keeps_anything_else_is_caught_on_every_such_turn(fault: str, before: int, at: int) -> None:
    pair = Pair()
    for number in range(before):
        pair.turn(user(f"turn {number}"))
    kept = pair.lane.latest
    assert kept is not None
    held = list(kept.context.items)
    other = FAULTS[fault](held, at % (len(held) - 1))
    pair.lane.latest = replace(kept, context=pipeline.extend(pair.server.reader.proven, other))
    with pytest.raises(ApiError) as caught:
        pair.turn(user("next"))
    assert caught.value.code == "context_mismatch"
    pair.lane.refused(caught.value, kept.id)
    assert pair.lane.find(kept.id) is None
    pair.turn(user("next"), whole=True)
    deltas = pair.deltas
    pair.turn(user("and on"))
    assert pair.deltas == deltas + 1


def test_a_conversation_that_came_over_http_is_not_compared() -> None:
    pair = Pair(store=True)
    turn = pair.server.admit(members(model="sim", input="a", store=True), ME)
    kept = finish(pair.server, turn)
    assert kept.context.proof == proof.NONE
    claim = proof.Claim("0" * 64, NONCE)
    pair.server.admit(members(model="sim", input="b", previous_response_id=kept.id), ME, pair.lane, claim)
