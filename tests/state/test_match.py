"""Which head a turn continues. First case by case, then as a game against simulated clients.

The game's oracle is `state.canon`: whatever a match claims to be covered, followed by what it calls new, has to be the
client's input, item for item.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import state.match
from state.canon import canonical, string_input
from state.commit import head_of
from state.digest import EMPTY, Keyed
from state.envelope import Envelope
from state.heads import Head, HeadIndex
from state.match import MAX_BOUNDARIES, MAX_STEPS_BACK, Matcher, Reading
from wire.exact import parse
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.digest import Hasher

KEYED = Keyed(b"secret")
ONE, TWO = KEYED.tenant([b"one"]), KEYED.tenant([b"two"])
ROOM = 10**9

Json = dict[str, Any]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str, name: str = "msg_1") -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": name, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def thought(blob: str, name: str = "rs_1") -> Json:
    summary = [{"type": "summary_text", "text": "hm"}]
    return {"id": name, "type": "reasoning", "summary": summary, "encrypted_content": blob, "status": None}


def call(arguments: str, name: str = "fc_1", call_id: str = "call_1") -> Json:
    item = {"id": name, "type": "function_call", "status": "completed", "call_id": call_id, "name": "f"}
    return item | {"arguments": arguments}


def result(output: str, call_id: str = "call_1") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def bare(item: Json) -> Json:
    """The echo of a client that drops what the server added."""
    kept = {key: value for key, value in item.items() if key not in {"id", "status"}}
    if item["type"] == "message":
        kept["content"] = [{"type": part["type"], "text": part["text"]} for part in item["content"]]
    return kept


def raw(items: list[Json]) -> bytes:
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False).encode()


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


# The game. Texts are few, so that histories meet by chance; every client has its own way to echo and to write.

TEXTS = st.sampled_from(["", "a", "b", "\u00e9\u2028", '"\\'])
NEW = st.lists(
    st.one_of(
        TEXTS.map(user),
        TEXTS.map(lambda text: {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
        st.builds(result, TEXTS, st.sampled_from(["call_1", "call_2"])),
        st.just({"type": "novelty", "n": 1.0}),
    ),
    min_size=1,
    max_size=2,
)
ARGUMENTS = st.sampled_from(["{}", '{"b": 1, "a":2}', '{"a":2,"b":1}', '{"a":2,"b":1.0}', "not json", '{"a":null}'])
ANSWER = st.lists(
    st.one_of(
        st.builds(lambda text: said(text, ""), TEXTS),
        st.builds(lambda text: thought(text, ""), st.sampled_from(["e", "E"])),
        st.builds(lambda text, at: call(text, "", at), ARGUMENTS, st.sampled_from(["call_1", "call_2"])),
    ),
    min_size=1,
    max_size=3,
)


def rewritten(item: Json) -> Json:
    """The echo of a client that parses arguments and writes them anew, keys sorted, and adds nulls."""
    item = bare(item) | {"status": None}
    if item["type"] == "function_call":
        with contextlib.suppress(ValueError):
            item["arguments"] = json.dumps(json.loads(item["arguments"]), sort_keys=True)
    return dict(reversed(item.items()))


def short(item: Json) -> Json:
    """The echo of a client that has messages as a role and a text."""
    return {"role": "assistant", "content": item["content"][0]["text"]} if item["type"] == "message" else bare(item)


def referring(item: Json) -> Json:
    return {"type": "item_reference", "id": item["id"]}


FAMILIES: dict[str, Callable[[Json], Json]] = {
    "verbatim": dict,
    "bare": bare,
    "rewritten": rewritten,
    "short": short,
    "referring": referring,
}
STYLES: dict[str, Callable[[list[Json]], str]] = {
    "compact": lambda items: json.dumps(items, separators=(",", ":"), ensure_ascii=False),
    "spaced": lambda items: json.dumps(items, indent=1),
    "sorted": lambda items: json.dumps(items, sort_keys=True),
}


@dataclass
class Known:
    """What the game knows of a head: for every covered item the canonical forms that it may have."""

    head: Head
    tenant: bytes
    base: list[bytes]
    answer: list[set[bytes]]
    reasoning: list[bool]

    @property
    def count(self) -> int:
        return len(self.base) + len(self.answer)

    def covers(self, forms: list[bytes]) -> bool:
        own = [*({form} for form in self.base), *self.answer]
        return len(own) <= len(forms) and all(form in allowed for allowed, form in zip(own, forms, strict=False))


@dataclass
class Talk:
    """A conversation as its client has it: what it will send again, and how."""

    tenant: bytes
    family: str
    style: str
    items: list[Json]
    newest: Known | None = None


class Game(RuleBasedStateMachine):
    """Clients that continue, branch, rewind, compact, retry, ask aside, rewrite and damage; all are told the truth."""

    @initialize(room=st.sampled_from([ROOM, 20_000]))
    def begin(self, room: int) -> None:
        self.index = HeadIndex(room)
        self.exact = Matcher(KEYED, self.index)
        self.lenient = Matcher(KEYED, self.index, lenient=True)
        self.talks: list[Talk] = []
        self.known: dict[Head, Known] = {}
        self.named: dict[tuple[bytes, str], bytes] = {}
        self.numbers = 0

    def form(self, tenant: bytes, item: bytes) -> bytes:
        """The canonical form of a raw item, that of the named item for a reference."""
        value = json.loads(item)
        if value.get("type") == "item_reference":
            return self.named[tenant, value["id"]]
        return canonical(item)

    def check(self, tenant: bytes, sent: bytes) -> Reading:
        """Every match is sound, for both matchers."""
        items = [string_input(sent)] if sent.startswith(b'"') else elements(sent)
        forms = [self.form(tenant, item) for item in items]
        for matcher in (self.exact, self.lenient):
            reading = matcher.read(tenant, sent)
            assert reading.count == len(items)
            assert len({id(match.head) for match in reading.matches}) == len(reading.matches)
            order = [(match.lenient, len(match.new)) for match in reading.matches]
            assert order == sorted(order)
            for match in reading.matches:
                head = self.known[match.head]
                assert head.tenant == tenant
                covered = len(items) - len(match.new)
                if match.lenient:
                    assert matcher is self.lenient
                    self.check_lenient(head, forms, match.new, items)
                else:
                    assert covered == head.count
                    assert head.covers(forms)
                    assert list(match.new) == items[covered:]
        return self.exact.read(tenant, sent)

    @staticmethod
    def check_lenient(head: Known, forms: list[bytes], new: Any, items: list[bytes]) -> None:
        """The base is exact, nothing but reasoning is missing, and what was not answered is new, in order."""
        assert forms[: len(head.base)] == head.base
        echo = forms[len(head.base) : len(forms) - len(new)]
        assert list(new) == items[len(items) - len(new) :]
        left = list(zip(head.answer, head.reasoning, strict=True))
        for form in echo:
            left.remove(next(one for one in left if form in one[0]))
        assert all(reasoning for _, reasoning in left)

    def send(self, talk: Talk, items: list[Json]) -> tuple[bytes, Reading]:
        sent = STYLES[talk.style](items).encode()
        return sent, self.check(talk.tenant, sent)

    def commit(self, talk: Talk, sent: bytes, reading: Reading, answer: list[Json], second: str = "") -> None:
        answer = [item | {"id": f"{item['type']}_{self.numbers}_{place}"} for place, item in enumerate(answer)]
        self.numbers += 1
        forms = [[json.dumps(item).encode()] for item in answer]
        if second and answer[-1]["type"] == "reasoning":
            forms[-1].append(json.dumps(answer[-1] | {"encrypted_content": second}).encode())
        for item, (first, *_) in zip(answer, forms, strict=True):
            self.named[talk.tenant, item["id"]] = canonical(first)
        head = head_of(
            KEYED,
            reading,
            tenant=talk.tenant,
            envelope=Envelope(()),
            response_id=f"resp_{self.numbers}",
            stored=False,
            answer=forms,
            link=1,
        )
        items = [string_input(sent)] if sent.startswith(b'"') else elements(sent)
        talk.items = [*talk.items, *map(FAMILIES[talk.family], answer)]
        talk.newest = None
        if head is None:
            assert reading.unknown
            return
        known = talk.newest = Known(
            head,
            talk.tenant,
            [self.form(talk.tenant, item) for item in items],
            [{canonical(form) for form in both} for both in forms],
            [item["type"] == "reasoning" for item in answer],
        )
        self.known[head] = known
        self.index.add(head)

    def any_talk(self, data: st.DataObject) -> Talk:
        return data.draw(st.sampled_from(self.talks))

    @rule(
        tenant=st.sampled_from([ONE, TWO]),
        family=st.sampled_from(sorted(FAMILIES)),
        style=st.sampled_from(sorted(STYLES)),
        new=NEW,
        answer=ANSWER,
        shape=st.sampled_from(["items", "items", "items", "string", "empty"]),
    )
    def start(self, *, tenant: bytes, family: str, style: str, new: list[Json], answer: list[Json], shape: str) -> None:
        talk = Talk(tenant, family, style, new)
        sent = STYLES[style](new).encode()
        if shape == "string":
            talk.items, sent = [user("caf\u00e9")], b'"caf\\u00e9"'
        elif shape == "empty":
            talk.items, sent = [], b"[ ]"
        self.commit(talk, sent, self.check(tenant, sent), answer)
        self.talks.append(talk)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), new=NEW, answer=ANSWER, second=st.sampled_from(["", "f"]))
    def go_on(self, data: st.DataObject, new: list[Json], answer: list[Json], second: str) -> None:
        """A plain next step: the newest head of the talk is found, and nothing is longer."""
        talk = self.any_talk(data)
        newest, talk.items = talk.newest, [*talk.items, *new]
        sent, reading = self.send(talk, talk.items)
        if newest is not None and newest.head in self.index and reading.near in {"", "history_diverged"}:
            assert self.known[reading.matches[0].head].count >= newest.count
        self.commit(talk, sent, reading, answer, second)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), new=NEW, answer=ANSWER)
    def branch(self, data: st.DataObject, new: list[Json], answer: list[Json]) -> None:
        """A second client goes on from the same place, in its own way from now on."""
        talk = self.any_talk(data)
        twin = Talk(talk.tenant, data.draw(st.sampled_from(sorted(FAMILIES))), talk.style, [*talk.items, *new])
        sent, reading = self.send(twin, twin.items)
        self.commit(twin, sent, reading, answer)
        self.talks.append(twin)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), aside=TEXTS, answer=ANSWER)
    def ask_aside(self, data: st.DataObject, aside: str, answer: list[Json]) -> None:
        """The whole history and one message more, which the history never holds."""
        talk = self.any_talk(data)
        other = Talk(talk.tenant, talk.family, talk.style, [*talk.items, user(aside)])
        sent, reading = self.send(other, other.items)
        self.commit(other, sent, reading, answer)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), answer=ANSWER, again=st.booleans())
    def retry(self, *, data: st.DataObject, answer: list[Json], again: bool) -> None:
        """The same request twice; the second answer may be another one."""
        talk = self.any_talk(data)
        items = talk.items[: len(talk.newest.base)] if again and talk.newest else [*talk.items, user("again")]
        for one in (answer, answer[::-1]):
            twin = Talk(talk.tenant, talk.family, talk.style, items)
            sent, reading = self.send(twin, items)
            self.commit(twin, sent, reading, one)
            self.talks.append(twin)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), new=NEW, answer=ANSWER)
    def rewind(self, data: st.DataObject, new: list[Json], answer: list[Json]) -> None:
        talk = self.any_talk(data)
        keep = data.draw(st.integers(0, len(talk.items)))
        talk.items = [*talk.items[:keep], *new]
        sent, reading = self.send(talk, talk.items)
        self.commit(talk, sent, reading, answer)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), new=NEW, answer=ANSWER)
    def compact(self, data: st.DataObject, new: list[Json], answer: list[Json]) -> None:
        talk = self.any_talk(data)
        talk.items = [{"type": "compaction", "encrypted_content": "x"}, *talk.items[len(talk.items) // 2 :], *new]
        sent, reading = self.send(talk, talk.items)
        self.commit(talk, sent, reading, answer)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), style=st.sampled_from(sorted(STYLES)), new=NEW, answer=ANSWER)
    def rewrite(self, data: st.DataObject, style: str, new: list[Json], answer: list[Json]) -> None:
        """The same history in other bytes finds the same head, unless older bytes of it lead elsewhere."""
        talk = self.any_talk(data)
        newest, talk.style, talk.items = talk.newest, style, [*talk.items, *new]
        sent, reading = self.send(talk, talk.items)
        if newest is not None and newest.head in self.index and not (reading.near or reading.unknown):
            assert self.known[reading.matches[0].head].count >= newest.count
        self.commit(talk, sent, reading, answer)

    @precondition(lambda self: self.talks)
    @rule(data=st.data(), how=st.sampled_from(["drop", "swap", "text", "blob", "number", "double"]))
    def damage(self, data: st.DataObject, how: str) -> None:
        """An echo that is not quite the answer is checked like any other input, and commits nothing."""
        talk = self.any_talk(data)
        items = [dict(item) for item in talk.items]
        place = data.draw(st.integers(0, max(0, len(items) - 1)))
        if how == "drop":
            del items[place : place + 1]
        elif how == "swap":
            items[place : place + 2] = reversed(items[place : place + 2])
        elif how == "double":
            items[place:place] = items[place : place + 1]
        elif items:
            for key, value in {"text": ("content", "x"), "blob": ("encrypted_content", "x")}.items():
                if how == key and value[0] in items[place]:
                    items[place][value[0]] = value[1]
            if how == "number" and "arguments" in items[place]:
                items[place]["arguments"] = items[place]["arguments"].replace("1", "1.0")
        self.send(talk, [*items, user("after")])

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.index.drop(data.draw(st.sampled_from(list(self.known))))

    @invariant()
    def stay_in_bounds(self) -> None:
        if hasattr(self, "index"):
            assert self.index.weight <= self.index._max_bytes


TestGame = Game.TestCase
TestGame.settings = settings(max_examples=80, stateful_step_count=25)
