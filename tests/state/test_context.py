"""The chain that two ends compare: the same for the same conversation however it came, and no oracle for anyone else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.canon import canonical
from state.commit import head_of
from state.context import START, after, bound, extend, form_of, of_base, of_record
from state.digest import Keyed
from state.envelope import Envelope
from state.heads import Head, HeadIndex
from state.match import Matcher, Reading
from tests.support.history import KEYED, ONE, ROOM, Json, bare, call, raw, result, said, thought, user

FORMS = st.lists(st.binary(min_size=32, max_size=32), max_size=5)
ANSWERS = [[said("b")], [thought("e"), call('{"a":1}')], [said("b"), said("c", "msg_2")]]


def plain(items: list[Json]) -> bytes:
    """What a server keeps that was sent these items."""
    chain = extend(START, (form_of(canonical(json.dumps(item).encode())) for item in items))
    assert chain is not None
    return chain


class Side:
    """One sidecar's memory of one conversation."""

    def __init__(self, keyed: Keyed = KEYED, *, lenient: bool = False) -> None:
        self.keyed = keyed
        self.index = HeadIndex(ROOM)
        self.matcher = Matcher(keyed, self.index, lenient=lenient)

    def read(self, sent: bytes | list[Json]) -> Reading:
        return self.matcher.read(ONE, sent if isinstance(sent, bytes) else raw(sent))

    def turn(self, sent: bytes | list[Json], *answer: list[Json], full: bool = True, name: str = "resp_1") -> Head:
        """One completed turn; each item of the answer in one or two forms."""
        reading = self.read(sent)
        context = reading.context if full else after(self.keyed, reading.matches[0])
        forms = [[json.dumps(form).encode() for form in item] for item in answer]
        facts: dict[str, Any] = {"tenant": ONE, "envelope": Envelope(()), "stored": True, "link": 1}
        head = head_of(self.keyed, reading, response_id=name, answer=forms, context=context, **facts)
        assert head is not None
        self.index.add(head)
        return head


@given(FORMS, FORMS)
def test_a_chain_is_a_fold(one: list[bytes], two: list[bytes]) -> None:
    assert extend(extend(START, one), two) == extend(START, one + two)


@given(st.lists(st.sampled_from([b"a", b"b"])), st.lists(st.sampled_from([b"a", b"b"])))
def test_other_items_or_another_order_make_another_chain(one: list[bytes], two: list[bytes]) -> None:
    assert (extend(START, map(form_of, one)) == extend(START, map(form_of, two))) == (one == two)


@pytest.mark.parametrize(("chain", "forms"), [(None, []), (None, [b"a"]), (START, [b"a", None, b"b"])])
def test_what_is_not_known_stays_unknown(chain: bytes | None, forms: list[bytes | None]) -> None:
    assert extend(chain, forms) is None


def test_a_digest_means_something_on_its_own_connection_only() -> None:
    assert bound(b"n" * 16, START) == bound(b"n" * 16, START) != bound(b"m" * 16, START)
    assert len(bound(b"n" * 16, START)) == 64


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
@pytest.mark.parametrize("echo", [lambda item: item, bare, lambda item: item | {"created_by": "x"}])
def test_a_continuation_leaves_what_the_whole_history_would(answer: list[Json], echo: Any) -> None:
    side = Side()
    side.turn([user("a")], *([item] for item in answer))
    history = [user("a"), *map(echo, answer), user("c")]
    (match,) = side.read(history).matches
    assert after(KEYED, match) == plain([user("a"), *answer, user("c")]) == side.read(history).context


def test_a_chain_of_deltas_never_needs_the_history_again() -> None:
    side, history = Side(), [user("a")]
    side.turn(history, [said("0", "m0")])
    for number in range(1, 5):
        history = [*history, bare(said(str(number - 1))), user("more")]
        side.turn(history, [said(str(number), f"m{number}")], full=False, name=f"resp_{number}")
        (match, *_) = side.read([*history, bare(said(str(number))), user("c")]).matches
        assert after(KEYED, match) == plain([*history, said(str(number)), user("c")])


def test_another_serialisation_of_the_history_leads_to_the_same() -> None:
    side = Side()
    side.turn([user("a")], [said("b")])
    spaced = json.dumps([user("a"), bare(said("b")), user("c")], indent=1).encode()
    (match,) = side.read(spaced).matches
    assert after(KEYED, match) == side.read(spaced).context == plain([user("a"), said("b"), user("c")])


def test_text_alone_is_the_message_that_it_stands_for() -> None:
    assert Side().read(b'"a"').context == plain([user("a")])
    assert Side().read(b'"a \\ud800"').context is None, "each end has bytes of its own for what cannot be read exactly"


def test_a_lenient_echo_stands_for_the_upstreams_own_record() -> None:
    side = Side(lenient=True)
    side.turn([user("a")], [thought("e")], [said("b")])
    (match,) = side.read([user("a"), said("b"), user("c")]).matches
    assert match.lenient
    assert after(KEYED, match) == plain([user("a"), thought("e"), said("b"), user("c")])
    side.turn([user("a"), said("b"), user("c")], [said("d", "msg_2")], full=False, name="resp_2")
    (match, *_) = side.read([user("a"), said("b"), user("c"), said("d", "msg_2"), user("e")]).matches
    whole = [user("a"), thought("e"), said("b"), user("c"), said("d"), user("e")]
    assert after(KEYED, match) == plain(whole)


def test_a_reference_counts_as_it_was_sent_where_it_was_sent_and_not_where_it_is_an_echo() -> None:
    side = Side()
    side.turn([user("a")], [said("b")])
    reference = {"type": "item_reference", "id": "msg_1"}
    reading = side.read([user("a"), reference, user("c")])
    (match,) = reading.matches
    assert after(KEYED, match) == plain([user("a"), said("b"), user("c")])
    assert reading.context == plain([user("a"), reference, user("c")]), "what a server that is sent all of it reads"


def test_which_of_two_forms_the_upstream_holds_is_not_known() -> None:
    side = Side()
    head = side.turn([user("a")], [thought("e1"), thought("e2")])
    assert of_record(KEYED, head) is None
    assert of_base(KEYED, head) == plain([user("a")])


def test_what_is_kept_between_turns_is_no_oracle_without_the_secret() -> None:
    one, other = Side(), Side(Keyed(b"another secret"))
    answer = [result("ok"), user("c")]
    kept = [(head.base_context, head.context) for head in (side.turn(answer, [said("b")]) for side in (one, other))]
    chains = {plain(answer), plain([*answer, said("b")])}
    assert len({*kept[0], *kept[1], *chains}) == 6
    same = one.turn(answer, [said("b")], name="resp_2")
    assert of_record(KEYED, same) == plain([*answer, said("b")])
    assert same.context != kept[0][1], "not even two heads of one conversation can be told to be that"
