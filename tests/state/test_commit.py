"""The head that a completed turn leaves, and that it is found again by what the client sends next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state.commit import head_of
from state.digest import EMPTY, Keyed
from state.envelope import Envelope
from state.heads import AnswerItem, Head, HeadIndex
from state.match import Matcher, Reading

KEYED = Keyed(b"secret")
TENANT = KEYED.tenant([b"one"])
USER = b'{"role":"user","content":"a"}'
MESSAGE = b'{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"b"}]}'
EARLY = b'{"type":"reasoning","id":"rs_1","encrypted_content":"e1"}'
LATE = b'{"type":"reasoning","id":"rs_1","encrypted_content":"e2"}'


def read(raw: bytes, index: HeadIndex | None = None) -> Reading:
    return Matcher(KEYED, index if index is not None else HeadIndex(10**6)).read(TENANT, raw)


def made(reading: Reading, *answer: tuple[bytes, ...], **members: Any) -> Head | None:
    facts: dict[str, Any] = {"envelope": Envelope(()), "response_id": "resp_1", "stored": False, "link": 7}
    return head_of(KEYED, reading, tenant=TENANT, answer=answer, **facts | members)


def certain(found: Head | None) -> Head:
    assert found is not None
    return found


# One item


def item(*forms: bytes) -> AnswerItem:
    (found,) = certain(made(read(b"[" + USER + b"]"), forms)).answer
    return found


def test_an_item_is_known_by_its_digest_and_its_id() -> None:
    assert item(MESSAGE) == AnswerItem((KEYED.item(MESSAGE),), KEYED.name("msg_1"))


def test_reasoning_is_marked() -> None:
    assert item(EARLY).reasoning
    assert not item(MESSAGE).reasoning


def test_both_forms_of_an_item_stand_for_it_the_first_one_first() -> None:
    assert item(EARLY, LATE).digests == (KEYED.item(EARLY), KEYED.item(LATE))
    assert item(LATE, EARLY).digests == (KEYED.item(LATE), KEYED.item(EARLY))


def test_forms_that_are_equal_count_once() -> None:
    spaced = json.dumps(json.loads(MESSAGE), indent=1).encode()
    assert item(MESSAGE, spaced).digests == (KEYED.item(MESSAGE),)


@pytest.mark.parametrize(
    "raw", [b'{"id":"a","id":"b"}', b'{"id":"\\ud800"}', b"null", b"[]", b'{"id":5}', b'{"id":""}', b'{"id":null}']
)
def test_an_item_without_one_exact_id_has_no_reference(raw: bytes) -> None:
    assert item(raw) == AnswerItem((KEYED.item(raw),))


# The head


def test_a_head_covers_the_input_and_the_answer() -> None:
    reading = read(b"[" + USER + b"]")
    head = certain(made(reading, (MESSAGE,), stored=True, turns=3))
    base = KEYED.chain(EMPTY, KEYED.item(USER))
    assert (head.tenant, head.response_id, head.stored, head.link, head.turns) == (TENANT, "resp_1", True, 7, 3)
    assert (head.base_count, head.count, head.base, head.prefix) == (1, 2, base, reading.prefix)
    assert head.chain == KEYED.chain(base, KEYED.item(MESSAGE))
    assert head.other_chain is None
    assert not head.answered


def test_a_head_of_a_later_turn_says_that_its_base_holds_an_answer() -> None:
    assert certain(made(read(b"[" + USER + b"," + MESSAGE + b"]"), (MESSAGE,))).answered


def test_second_forms_have_a_chain_of_their_own() -> None:
    head = certain(made(read(b"[" + USER + b"]"), (EARLY, LATE), (MESSAGE,)))
    chains = []
    for reasoning in (EARLY, LATE):
        chain = head.base
        for item in (reasoning, MESSAGE):
            chain = KEYED.chain(chain, KEYED.item(item))
        chains.append(chain)
    assert [head.chain, head.other_chain] == chains


@pytest.mark.parametrize("members", [{"response_id": ""}, {"answer": ()}])
def test_an_answer_without_a_name_or_an_item_leaves_no_head(members: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"response_id": "resp_1", "answer": ((MESSAGE,),)} | members
    reading = read(b"[" + USER + b"]")
    assert head_of(KEYED, reading, tenant=TENANT, envelope=Envelope(()), stored=True, link=None, **facts) is None


def test_an_input_with_a_reference_to_nothing_known_leaves_no_head() -> None:
    assert made(read(b'[{"type":"item_reference","id":"msg_9"}]'), (MESSAGE,)) is None


@pytest.mark.parametrize("echo", [EARLY, LATE])
@pytest.mark.parametrize("spaced", [b"", b" "])
def test_the_next_turn_finds_the_head_by_either_form_in_its_own_or_another_spelling(echo: bytes, spaced: bytes) -> None:
    head = certain(made(read(b"[" + USER + b"]"), (EARLY, LATE), (MESSAGE,)))
    index = HeadIndex(10**6)
    index.add(head)
    following = b"[" + spaced + b",".join([USER, echo, MESSAGE, USER]) + b"]"
    match = read(following, index).matches[0]
    assert (match.head, list(match.new)) == (head, [USER])


def test_the_next_turn_finds_the_head_by_references_to_the_answer() -> None:
    head = certain(made(read(b"[" + USER + b"]"), (EARLY, LATE), (MESSAGE,)))
    index = HeadIndex(10**6)
    index.add(head)
    following = b"[" + USER + b',{"type":"item_reference","id":"rs_1"},{"id":"msg_1"},' + USER + b"]"
    assert [match.head for match in read(following, index).matches] == [head]


def test_a_head_holds_nothing_of_the_content() -> None:
    secret = b'{"role":"user","content":"hunter2"}'
    answer = MESSAGE.replace(b'"b"', b'"hunter2"')
    head = certain(made(read(b"[" + secret + b"]"), (answer,)))
    assert "hunter2" not in repr([getattr(head, name) for name in Head.__slots__])
