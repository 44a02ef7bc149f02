"""A game against the matcher: simulated clients, each with its own way to echo and to write.

The oracle is `state.canon`: whatever a match claims to be covered, followed by what it calls new, has to be the
client's input, item for item. Texts are few, so that histories meet by chance.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state.canon import canonical, string_input
from state.commit import head_of
from state.envelope import Envelope
from state.heads import Head, HeadIndex
from state.match import Matcher, Reading
from tests.support.history import KEYED, ONE, ROOM, TWO, Json, bare, call, result, said, thought, user
from wire.split import elements

if TYPE_CHECKING:
    from collections.abc import Callable

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
