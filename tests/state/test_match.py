"""Which head a turn continues: case by case, and as a game against simulated clients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state.match
from state.canon import canonical
from state.commit import head_of
from state.digest import EMPTY, Keyed
from state.envelope import Envelope
from state.heads import Head, HeadIndex
from state.match import MAX_BOUNDARIES, MAX_STEPS_BACK, Matcher, Reading
from tests.support.game import Game
from tests.support.history import KEYED, ONE, ROOM, TWO, Json, bare, call, raw, result, said, thought, user
from wire.exact import parse
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.digest import Hasher


class Proxy:
    """What the sidecar does around the matcher."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.index = HeadIndex(ROOM)
        self.matcher = Matcher(KEYED, self.index, lenient=lenient)
        self.turns = 0

    def read(self, sent: bytes | list[Json], tenant: bytes = ONE) -> Reading:
        return self.matcher.read(tenant, sent if isinstance(sent, bytes) else raw(sent))

    def turn(self, sent: bytes | list[Json], answer: list[Json], *second: Json, tenant: bytes = ONE) -> Head:
        """One completed turn; `second` are other forms of the last answered items."""
        self.turns += 1
        forms = [[raw([item])[1:-1]] for item in answer]
        for place, form in enumerate(second, len(answer) - len(second)):
            forms[place].append(raw([form])[1:-1])
        head = head_of(
            KEYED,
            self.read(sent, tenant),
            tenant=tenant,
            envelope=Envelope(()),
            response_id=f"resp_{self.turns}",
            stored=False,
            answer=forms,
            link=1,
        )
        assert head is not None
        self.index.add(head)
        return head


def found(reading: Reading) -> list[tuple[Head, list[Json]]]:
    return [(match.head, [json.loads(item) for item in match.new]) for match in reading.matches]


A, B, C = user("a"), said("b"), user("c")


def test_what_follows_the_echo_is_new() -> None:
    proxy = Proxy()
    head = proxy.turn([A], [B])
    assert found(proxy.read([A, bare(B), C])) == [(head, [C])]


def test_a_first_turn_matches_nothing_and_holds_no_answer() -> None:
    reading = Proxy().read([A])
    assert (reading.matches, reading.answers, reading.near, reading.count) == ([], False, "", 1)


def test_the_new_items_are_the_clients_own_bytes() -> None:
    proxy = Proxy()
    proxy.turn([A], [B])
    new = b'{"content":"\\u0063 1.00", "x":1.00 ,"role":"user"}'
    (match,) = proxy.read(raw([A, bare(B)])[:-1] + b"\n ,\t" + new + b" ]").matches
    assert list(match.new) == [new]


def test_a_repeated_turn_matches_its_own_base_nowhere() -> None:
    proxy = Proxy()
    proxy.turn([A], [B])
    reading = proxy.read([A])
    assert (reading.matches, reading.near) == ([], "")


def test_an_echo_with_nothing_after_it_is_a_match_with_nothing_new() -> None:
    proxy = Proxy()
    head = proxy.turn([A], [B])
    assert found(proxy.read([A, bare(B)])) == [(head, [])]


def test_two_answers_to_the_same_input_are_told_apart() -> None:
    proxy = Proxy()
    first = proxy.turn([A], [said("b", "msg_1")])
    second = proxy.turn([A], [said("B", "msg_2")])
    assert found(proxy.read([A, bare(said("b")), C])) == [(first, [C])]
    assert found(proxy.read([A, bare(said("B")), C])) == [(second, [C])]


def test_of_two_equal_heads_the_latest_comes_first() -> None:
    proxy = Proxy()
    older, newer = proxy.turn([A], [B]), proxy.turn([A], [said("b", "msg_9")])
    assert [head for head, _ in found(proxy.read([A, bare(B), C]))] == [newer, older]


def test_the_longest_head_comes_first() -> None:
    proxy = Proxy()
    proxy.turn([A], [B])
    long = proxy.turn([A, bare(B), C], [said("d")])
    reading = proxy.read([A, bare(B), C, bare(said("d")), user("e")])
    assert found(reading)[0] == (long, [user("e")])


def test_a_rewound_conversation_continues_the_older_head() -> None:
    proxy = Proxy()
    old = proxy.turn([A], [B])
    proxy.turn([A, bare(B), C], [said("d")])
    assert found(proxy.read([A, bare(B), user("edited")])) == [(old, [user("edited")])]


def test_an_edit_after_an_echo_steps_back_to_the_head_before() -> None:
    proxy = Proxy()
    old = proxy.turn([A], [B])
    proxy.turn([A, bare(B), C], [said("d")])
    reading = proxy.read([A, bare(B), C, bare(said("other")), user("e")])
    assert found(reading) == [(old, [C, bare(said("other")), user("e")])]
    assert reading.near == "history_diverged"


def test_however_far_back_the_head_lies_it_is_found() -> None:
    proxy = Proxy()
    sent = [A]
    first = proxy.turn(sent, [B])
    sent = [*sent, bare(B)]
    for number in range(2 * MAX_STEPS_BACK):
        sent = [*sent, user(f"{number}")]
        proxy.turn(sent, [said("never echoed", f"msg_{number}")])
        assert found(proxy.read([*sent, user("last")])) == [(first, [*sent[2:], user("last")])]


def test_a_retry_finds_a_head_that_was_made_of_other_bytes() -> None:
    proxy = Proxy()
    head = proxy.turn(b'"a"', [B])
    proxy.turn([A, bare(B), C], [said("d")])
    assert found(proxy.read([A, bare(B), C])) == [(head, [C])]


@pytest.mark.parametrize("echo", [[B], [thought("e"), said("other")]])
def test_a_client_that_never_echoes_exactly_does_not_pay_for_its_history_on_each_turn(
    monkeypatch: pytest.MonkeyPatch, echo: list[Json]
) -> None:
    proxy = Proxy()
    long = [user("x" * 100_000)]
    proxy.turn(long, [thought("e"), B])
    parsed = count_parsed(monkeypatch)
    assert proxy.read([*long, *map(bare, echo), C]).matches == []
    assert 0 < sum(parsed) < 1000


def test_only_the_last_places_of_a_long_history_are_remembered_for_a_look_elsewhere() -> None:
    turns = MAX_BOUNDARIES + 5
    items = [item for turn in range(turns) for item in (user(f"q{turn}"), said(f"a{turn}"))]
    reading = Proxy().read([*items, user("more")])
    assert [len(found.new) for found in reading.boundaries] == list(range(1, 2 * MAX_BOUNDARIES, 2))
    assert reading.boundaries[0].chain != reading.boundaries[1].chain


def test_a_side_request_does_not_disturb_the_main_history() -> None:
    proxy = Proxy()
    main = proxy.turn([A], [B])
    side = proxy.turn([A, bare(B), user("title?")], [said("t", "msg_t")])
    assert found(proxy.read([A, bare(B), C]))[0] == (main, [C])
    assert found(proxy.read([A, bare(B), user("title?"), bare(said("t")), C]))[0] == (side, [C])


def test_a_compacted_history_is_no_continuation() -> None:
    proxy = Proxy()
    proxy.turn([A], [B])
    assert proxy.read([user("short"), {"type": "compaction", "encrypted_content": "x"}, C]).matches == []


def test_nothing_matches_across_tenants_by_bytes_chain_or_reference() -> None:
    proxy = Proxy()
    proxy.turn([A], [B], tenant=ONE)
    for echo in (bare(B), B, {"type": "item_reference", "id": "msg_1"}):
        reading = proxy.read([A, echo, C], TWO)
        assert (reading.matches, reading.near, reading.near_head) == ([], "", None)
    assert proxy.read([A, {"type": "item_reference", "id": "msg_1"}, C], TWO).unknown == [KEYED.name("msg_1")]


def test_a_string_is_one_user_message_also_when_it_comes_back_as_an_item() -> None:
    proxy = Proxy()
    head = proxy.turn(b'"h\\u00e9"', [B])
    assert (head.base_count, head.prefix) == (1, None)
    assert found(proxy.read([user("hé"), bare(B), C])) == [(head, [C])]


def test_an_empty_input_can_be_continued() -> None:
    proxy = Proxy()
    head = proxy.turn(b"[ ]", [B])
    assert (head.base, head.base_count, head.prefix) == (EMPTY, 0, None)
    assert found(proxy.read([bare(B), C])) == [(head, [C])]


@pytest.mark.parametrize("sent", [b"", b"1", b"null", b"{}", b"[1]", b'["a"]', b"[null]", b"[[]]", b'[{"a":1}'])
def test_an_input_that_is_no_array_of_objects_and_no_string_is_malformed(sent: bytes) -> None:
    with pytest.raises(Malformed):
        Proxy().read(sent)


def test_white_space_around_the_known_prefix_never_hides_a_head() -> None:
    proxy = Proxy()
    head = proxy.turn(b"[\n " + raw([A])[1:-1] + b" \r\n\t]", [B])
    assert head.prefix is not None
    assert head.prefix.length == len(raw([A]))
    assert found(proxy.read(b"[\n " + raw([A, bare(B), C])[1:-1] + b"\t]")) == [(head, [C])]


def test_a_known_prefix_that_goes_on_within_an_item_is_none() -> None:
    proxy = Proxy()
    proxy.turn([A], [B])
    assert proxy.index.lengths(ONE) == [len(raw([A])) - 2]
    with pytest.raises(Malformed):
        proxy.read(raw([A])[:-1] + b" " + raw([bare(B)])[1:])


def test_a_reserialised_history_is_found_by_its_chain() -> None:
    proxy = Proxy()
    head = proxy.turn([A], [thought("e"), call('{"b":1,"a":[1.0]}')])
    spaced = b'[ { "content": "a", "type":"message", "role" : "user" } ,'
    echo = b'{"encrypted_content":"e","type":"reasoning"},'
    echo += b'{"type":"function_call","name":"f","call_id":"call_1","arguments":"{\\"a\\": [1.0], \\"b\\": 1}"},'
    assert found(proxy.read(spaced + echo + raw([result("ok")])[1:])) == [(head, [result("ok")])]


@pytest.mark.parametrize("echo", ["e1", "e2"])
def test_either_form_of_an_item_that_was_sent_twice_is_its_echo(echo: str) -> None:
    proxy = Proxy()
    head = proxy.turn([A], [thought("e1")], thought("e2"))
    assert found(proxy.read([A, bare(thought(echo)), C])) == [(head, [C])]
    spaced = b"[ " + raw([A, bare(thought(echo)), C])[1:]
    assert found(proxy.read(spaced)) == [(head, [C])]
    assert proxy.read([A, bare(thought("e3")), C]).matches == []


def test_of_several_items_that_were_sent_twice_each_may_come_back_in_either_form() -> None:
    proxy = Proxy()
    head = proxy.turn([A], [thought("e1", "rs_1"), thought("e2", "rs_2")], thought("E1", "rs_1"), thought("E2", "rs_2"))
    for one, two in (("e1", "e2"), ("e1", "E2"), ("E1", "e2"), ("E1", "E2")):
        assert found(proxy.read([A, bare(thought(one)), bare(thought(two)), C])) == [(head, [C])]


def test_a_reference_stands_for_the_item_that_it_names() -> None:
    proxy = Proxy()
    head = proxy.turn([A], [thought("e"), said("b", "msg_7")])
    echo: list[Json] = [{"type": "item_reference", "id": "rs_1"}, {"id": "msg_7"}]
    assert found(proxy.read([A, *echo, C])) == [(head, [C])]
    assert found(proxy.read(b"[ " + raw([A, *echo, C])[1:])) == [(head, [C])]
    assert proxy.read([A, *reversed(echo), C]).matches == []


def test_a_reference_still_means_something_after_its_head_is_gone() -> None:
    proxy = Proxy()
    proxy.index.drop(proxy.turn([A], [B]))
    reading = proxy.read([A, {"type": "item_reference", "id": "msg_1"}, C])
    assert reading.unknown == []
    assert reading.base == proxy.read([A, bare(B), C]).base


def test_an_unknown_reference_is_listed_once_and_leaves_the_chain_unknown() -> None:
    proxy = Proxy()
    head = proxy.turn([A], [B])
    strange: Json = {"type": "item_reference", "id": "msg_x"}
    reading = proxy.read([A, bare(B), strange, C, strange])
    assert (reading.base, reading.unknown_reference, reading.unknown) == (None, True, [KEYED.name("msg_x")])
    assert found(reading) == [(head, [strange, C, strange])]


def test_reading_again_with_the_references_known_tells_the_chain() -> None:
    proxy = Proxy()
    sent = [A, {"type": "item_reference", "id": "msg_x"}, C]
    for reference in proxy.read(sent).unknown:
        proxy.index.refer(ONE, reference, KEYED.item(raw([B])[1:-1]))
    reading = proxy.read(sent)
    assert (reading.base, reading.unknown) == (proxy.read([A, B, C]).base, [])


def test_a_reference_that_says_more_than_its_id_is_unknown_for_good() -> None:
    proxy = Proxy()
    proxy.turn([A], [B])
    reading = proxy.read([A, {"type": "item_reference", "id": "msg_1", "more": 1}, C])
    assert (reading.matches, reading.unknown_reference, reading.unknown) == ([], True, [])


CHANGED: dict[str, tuple[list[Json], str]] = {
    "text": ([thought("e"), call("{}"), said("B")], "history_diverged"),
    "blob": ([thought("E"), call("{}"), B], "history_diverged"),
    "arguments": ([thought("e"), call('{"a":1}'), B], "history_diverged"),
    "call id": ([thought("e"), call("{}", call_id="call_2"), B], "history_diverged"),
    "reasoning dropped": ([call("{}"), B], "reasoning_dropped"),
    "call dropped": ([thought("e"), B], "history_diverged"),
    "reasoning moved": ([call("{}"), B, thought("e")], "output_reordered"),
    "reordered": ([thought("e"), B, call("{}")], "output_reordered"),
    "reordered and dropped": ([B, call("{}")], "output_reordered"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_an_echo_that_is_not_the_answer_is_no_exact_match_and_says_why(change: str) -> None:
    proxy = Proxy()
    head = proxy.turn([A], [thought("e"), call("{}"), B])
    echo, near = CHANGED[change]
    reading = proxy.read([A, *map(bare, echo), C])
    assert reading.matches == []
    assert (reading.near, reading.near_head) == (near, head)


@pytest.mark.parametrize("change", CHANGED)
def test_lenient_takes_what_dropped_reasoning_or_changed_the_order_and_nothing_else(change: str) -> None:
    proxy = Proxy(lenient=True)
    head = proxy.turn([A], [thought("e"), call("{}"), B])
    echo, near = CHANGED[change]
    reading = proxy.read([A, *map(bare, echo), C])
    assert found(reading) == ([] if near == "history_diverged" else [(head, [C])])
    assert all(match.lenient for match in reading.matches)


def test_lenient_prefers_the_exact_echo() -> None:
    proxy = Proxy(lenient=True)
    proxy.turn([A], [thought("e"), B])
    exact = proxy.turn([A], [B])
    reading = proxy.read([A, bare(B), C])
    assert [match.lenient for match in reading.matches] == [False, True]
    assert reading.matches[0].head is exact


def test_lenient_prefers_the_exact_echo_also_further_back() -> None:
    proxy = Proxy(lenient=True)
    exact, loose = proxy.turn([A], [B]), proxy.turn([A], [thought("e"), B])
    proxy.turn([A, bare(B), C], [said("never echoed")])
    assert [match.head for match in proxy.read([A, bare(B), C, user("d")]).matches] == [exact, loose]


@given(st.data())
def test_one_other_byte_in_the_base_is_never_taken_for_it(data: st.DataObject) -> None:
    proxy = Proxy()
    base = raw([user("some text"), user("more")])
    head = proxy.turn(base, [B])
    place = data.draw(st.integers(1, len(base) - 2))
    other = base[:place] + bytes([data.draw(st.integers(0, 127))]) + base[place + 1 :]
    try:
        reading = proxy.read(other[:-1] + b"," + raw([bare(B), C])[1:])
    except Malformed:
        return
    same = [canonical(item) for item in elements(other)] == [canonical(item) for item in elements(base)]
    assert [match.head for match in reading.matches] == ([head] if same else [])


def count_parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each reading of JSON by the matcher was given, from now on."""
    parsed: list[int] = []

    def counting(plain: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def count(text: bytes) -> Any:
            parsed.append(len(text))
            return plain(text)

        return count

    monkeypatch.setattr(state.match, "parse", counting(parse))
    monkeypatch.setattr(state.match, "elements", counting(elements))
    return parsed


def test_a_known_prefix_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    long = [user("x" * 50_000), user("y" * 50_000)]
    proxy.turn(long, [B])
    parsed = count_parsed(monkeypatch)
    sent = raw([*long, bare(B), C])
    assert len(proxy.read(sent).matches) == 1
    assert 0 < sum(parsed) < 2 * (len(sent) - len(raw(long)) + 8)


class CountingHasher:
    def __init__(self, inner: Hasher, counted: list[int]) -> None:
        self._inner = inner
        self._counted = counted

    def update(self, data: bytes | memoryview, /) -> None:
        self._counted.append(len(data))
        self._inner.update(data)

    def copy(self) -> CountingHasher:
        return CountingHasher(self._inner.copy(), self._counted)

    def digest(self) -> bytes:
        return self._inner.digest()


def test_every_byte_is_hashed_once_however_many_prefixes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    sent = [user("x" * 1000)]
    for number in range(20):
        proxy.turn(sent, [said("b", f"msg_{number}")])
        sent = [*sent, bare(B), user(f"{number}")]
    hashed: list[int] = []
    plain = Keyed.prefix_hasher
    monkeypatch.setattr(Keyed, "prefix_hasher", lambda keyed: CountingHasher(plain(keyed), hashed))
    assert len(proxy.read(sent).matches) == 1
    assert sum(hashed) == len(raw(sent)) - 2


TestGame = Game.TestCase
TestGame.settings = settings(max_examples=80, stateful_step_count=25)
