"""How a turn goes: every reason in a table, then any reading against what a plan may never do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialect import CODEX, DELTAWIRE, OPEN_RESPONSES, Dialect
from proxy.plan import SAME_CONVERSATION, Plan, Rules, Transport, before_matching, plan
from proxy.request import TurnRequest, read
from state.digest import EMPTY, Keyed
from state.envelope import Envelope, EnvelopeReader
from state.heads import AnswerItem, Head
from state.match import Match, Reading
from telemetry.reasons import REASONS, TRANSPORTS

if TYPE_CHECKING:
    from proxy.settings import OneShot

KEYED = Keyed(b"secret")
READER = EnvelopeReader(KEYED)
TENANT = b"1" * 16
RULES = Rules(dialect=OPEN_RESPONSES)
REQUEST = read(b'{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}')
ENVELOPE = READER.read(REQUEST.members)
OTHER = READER.read({"model": b'"other"'})
SMALL = Dialect("small", max_frame=100)
PARTED = Dialect("parted", unchained=frozenset({"model"}))
NEW = [b'{"role":"user","content":"b"}']


@dataclass
class Links:
    """Places as a test wants them: reasons by link, and whether a warm one is there."""

    against: dict[int | None, str] = field(default_factory=dict)
    is_warm: bool = False

    def reason_against(self, head: Head) -> str:
        return self.against.get(head.link, "")

    def warm(self, tenant: bytes) -> bool:
        assert tenant == TENANT
        return self.is_warm


def head(*, stored: bool = False, link: int | None = 7, envelope: Envelope = ENVELOPE) -> Head:
    return Head(TENANT, "resp_1", stored, envelope, 1, EMPTY, EMPTY, (AnswerItem((EMPTY,)),), link=link)


def reading(*matches: Match, **facts: Any) -> Reading:
    return Reading(facts.pop("count", 2), facts.pop("base", EMPTY), None, list(matches), **facts)


def planned(
    found: Reading, *, request: TurnRequest = REQUEST, rules: Rules = RULES, places: Links | None = None
) -> Plan:
    envelope = READER.read(request.members)
    return plan(request, found, envelope=envelope, tenant=TENANT, places=places or Links(), rules=rules)


# Before anything is matched


@pytest.mark.parametrize(
    ("body", "rules", "reason"),
    [
        (b'{"input":[]}', RULES, None),
        (b'{"input":[]}', replace(RULES, transport="full"), None),
        (b'{"input":[]}', replace(RULES, transport="http"), "disabled"),
        (b'{"input":5}', RULES, "unreadable"),
        (b'{"input":[],"type":"x"}', RULES, "unreadable"),
        (b'{"input":[],"previous_response_id":"r"}', RULES, "client_state"),
        (b'{"input":[],"background":true}', RULES, "client_state"),
        (b'{"input":[]}', replace(RULES, against_links="no_websocket"), "no_websocket"),
    ],
)
def test_some_turns_go_by_http_whatever_is_known(body: bytes, rules: Rules, reason: str | None) -> None:
    assert before_matching(read(body), rules) == (None if reason is None else Plan("http", reason))


# With a match


@pytest.mark.parametrize("against", ["", "link_lost", "link_retired", "superseded", "head_busy"])
def test_a_stored_head_is_continued_anywhere_rather_on_the_link_that_holds_it(against: str) -> None:
    match = Match(head(stored=True), NEW)
    link = 7 if not against else None
    assert planned(reading(match), places=Links({7: against})) == Plan("delta", match=match, link=link)


def test_a_head_that_is_not_stored_is_continued_on_its_link() -> None:
    match = Match(head(), NEW)
    assert planned(reading(match)) == Plan("delta", match=match, link=7)


@pytest.mark.parametrize("reason", ["link_lost", "link_retired", "superseded", "head_busy"])
def test_what_its_link_has_against_it_is_the_reason(reason: str) -> None:
    assert planned(reading(Match(head(), NEW)), places=Links({7: reason})) == Plan("full", reason)


@pytest.mark.parametrize("reason", ["link_lost", "superseded", "head_busy"])
def test_where_nothing_is_kept_a_stored_head_is_continued_on_its_link_as_well(reason: str) -> None:
    match, rules = Match(head(stored=True), NEW), Rules(dialect=CODEX)
    assert planned(reading(match), rules=rules) == Plan("delta", match=match, link=7)
    assert planned(reading(match), rules=rules, places=Links({7: reason})) == Plan("full", reason)


@pytest.mark.parametrize(("value", "plain"), [(b'"be brief"', False), (b'""', False), (b"null", True), (None, True)])
def test_a_field_that_is_taken_on_whole_turns_only_makes_the_turn_a_whole_one(
    value: bytes | None, *, plain: bool
) -> None:
    rules = Rules(dialect=replace(OPEN_RESPONSES, unchained=frozenset({"instructions"})))
    members = REQUEST.members | ({"instructions": value} if value is not None else {})
    match = Match(head(envelope=READER.read(members)), NEW)
    made = planned(reading(match), request=replace(REQUEST, members=members), rules=rules)
    assert made == (Plan("delta", match=match, link=7) if plain else FULL_BY_FIELD)


FULL_BY_FIELD = Plan("full", "field_unchained", changed="instructions")


def test_a_changed_envelope_blocks_and_the_field_is_named() -> None:
    match = Match(head(stored=True, envelope=OTHER), NEW)
    assert planned(reading(match)) == Plan("full", "envelope_changed", changed="model")


def test_a_change_that_the_upstream_honours_does_not_block() -> None:
    request = read(b'{"model":"m","instructions":"new","input":[]}')
    match = Match(head(), NEW)
    assert planned(reading(match), request=request) == Plan("full", "envelope_changed", changed="instructions")
    assert planned(reading(match), request=request, rules=Rules(dialect=DELTAWIRE)).match is match


def test_an_empty_delta_is_sent_in_full_and_leaves_its_head_where_it_is() -> None:
    assert planned(reading(Match(head(), []))) == Plan("full", "empty_delta")


def test_the_longest_head_that_can_be_continued_is() -> None:
    long, short, shorter = Match(head(link=1), NEW), Match(head(link=2), NEW * 2), Match(head(link=3), NEW * 3)
    assert planned(reading(long, short, shorter), places=Links({1: "head_busy"})).match is short


def test_when_none_can_the_reason_of_the_longest_counts() -> None:
    long, short = Match(head(link=1), NEW), Match(head(link=2, envelope=OTHER), NEW * 2)
    assert planned(reading(long, short), places=Links({1: "head_busy"})) == Plan("full", "head_busy")


def test_deltas_can_be_switched_off() -> None:
    rules = replace(RULES, transport="full")
    assert planned(reading(Match(head(stored=True), NEW)), rules=rules) == Plan("full", "disabled")


def test_a_link_that_holds_another_state_by_now_is_not_taken_from_it() -> None:
    found = reading(near="reasoning_dropped", near_head=head())
    assert planned(found, places=Links({7: "superseded"})) == Plan("full", "reasoning_dropped")


def test_a_head_that_was_only_near_keeps_its_place_when_another_was_reached() -> None:
    found = reading(Match(head(link=1), []), near="reasoning_dropped", near_head=head(link=2))
    assert planned(found) == Plan("full", "empty_delta")


# Without a match


def test_a_reference_to_nothing_known_goes_by_http() -> None:
    assert planned(reading(base=None)) == Plan("http", "client_state")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (reading(), Plan("full", "first_turn")),
        (reading(answers=True), Plan("full", "unknown_head")),
        (reading(near="history_diverged", near_head=head()), Plan("full", "history_diverged")),
        (reading(near="reasoning_dropped", near_head=head()), Plan("full", "reasoning_dropped", link=7)),
        (reading(near="output_reordered", near_head=head(link=None)), Plan("full", "output_reordered")),
        (reading(near="reasoning_dropped"), Plan("full", "reasoning_dropped")),
    ],
)
def test_what_comes_near_is_the_reason(found: Reading, expected: Plan) -> None:
    assert planned(found) == expected


@pytest.mark.parametrize(
    ("body", "warm", "one_shot", "transport"),
    [
        (b'{"input":[]}', False, "http", "http"),
        (b'{"input":[]}', True, "http", "full"),
        (b'{"input":[]}', False, "link", "full"),
        (b'{"input":[],"tools":[{}]}', False, "http", "full"),
    ],
)
def test_a_first_turn_without_tools_may_go_by_http_when_no_link_is_warm(
    body: bytes, one_shot: OneShot, transport: Transport, *, warm: bool
) -> None:
    expected = Plan(transport, "one_shot" if transport == "http" else "first_turn")
    rules = replace(RULES, one_shot=one_shot)
    assert planned(reading(), request=read(body), rules=rules, places=Links(is_warm=warm)) == expected


@pytest.mark.parametrize("alone", [True, False])
def test_where_habits_decide_they_do_so_only_while_no_link_is_warm(*, alone: bool) -> None:
    rules = replace(RULES, one_shot="auto", one_shots=alone)
    expected = Plan("http", "one_shot") if alone else Plan("full", "first_turn")
    assert planned(reading(), rules=rules) == expected
    assert planned(reading(), rules=rules, places=Links(is_warm=True)) == Plan("full", "first_turn")


def test_a_turn_that_continues_something_is_never_a_one_shot() -> None:
    rules = replace(RULES, one_shot="http")
    assert planned(reading(answers=True), rules=rules) == Plan("full", "unknown_head")


# Size


def test_a_frame_that_the_upstream_would_refuse_goes_by_http() -> None:
    long = read(b'{"input":[%b]}' % (b'"' + b"x" * 200 + b'"'))
    rules = Rules(dialect=SMALL)
    assert planned(reading(), request=long, rules=rules) == Plan("http", "too_large")
    assert planned(
        reading(Match(head(stored=True, envelope=Envelope(())), [b'"' + b"x" * 150 + b'"'])), request=long, rules=rules
    ) == Plan("http", "too_large")


def test_a_history_too_large_for_a_frame_still_goes_as_a_delta() -> None:
    long = read(b'{"input":[%b]}' % (b'"' + b"x" * 200 + b'"'))
    match = Match(head(envelope=Envelope(())), [b'{"a":1}'])
    assert planned(reading(match), request=long, rules=Rules(dialect=SMALL)).match is match


@pytest.mark.parametrize(("spare", "transport"), [(0, "full"), (-1, "http")])
def test_the_border_counts_names_values_and_what_joins_them(spare: int, transport: str) -> None:
    size = sum(len(name) + len(raw) + len('"":,') for name, raw in REQUEST.members.items())
    rules = Rules(dialect=Dialect("exact", max_frame=size + spare))
    assert planned(reading(), rules=rules).transport == transport


@pytest.mark.parametrize(("spare", "delta"), [(0, True), (-1, False)])
def test_the_border_counts_only_the_new_items_of_a_delta(spare: int, *, delta: bool) -> None:
    size = sum(len(name) + len(raw) + len('"":,') for name, raw in REQUEST.members.items()) - len(REQUEST.input)
    rules = Rules(dialect=Dialect("exact", max_frame=size + len(NEW[0]) + spare))
    assert (planned(reading(Match(head(), NEW)), rules=rules).transport == "delta") is delta


# The plan itself


def test_the_ways_of_a_plan_are_the_documented_ones() -> None:
    assert {*get_args(Transport)} == TRANSPORTS.keys()


@pytest.mark.parametrize(
    "wrong",
    [
        {"transport": "delta"},
        {"transport": "delta", "reason": "first_turn", "match": Match(head(), NEW)},
        {"transport": "full"},
        {"transport": "full", "reason": "first_turn", "match": Match(head(), NEW)},
    ],
)
def test_a_plan_is_a_delta_with_a_match_or_says_why_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="only a delta has"):
        Plan(**wrong)


_AGAINST = st.sampled_from(["", "", "link_lost", "link_retired", "superseded", "head_busy"])
_HEADS = st.builds(
    head, stored=st.booleans(), link=st.sampled_from([None, 1, 2, 3]), envelope=st.sampled_from([ENVELOPE, OTHER])
)
_NEWS = st.lists(st.sampled_from([b'{"a":1}', b'"' + b"x" * 80 + b'"']), max_size=3)
_NEARS = st.sampled_from(["", "reasoning_dropped", "output_reordered", "history_diverged"])
_READINGS = st.builds(
    Reading,
    count=st.just(2),
    base=st.sampled_from([None, EMPTY, EMPTY, EMPTY]),
    prefix=st.none(),
    matches=st.lists(st.builds(Match, _HEADS, _NEWS), max_size=4),
    near=_NEARS,
    near_head=st.none() | _HEADS,
    answers=st.booleans(),
)
_RULES = st.builds(
    Rules,
    transport=st.sampled_from(["auto", "auto", "full"]),
    one_shot=st.sampled_from(["link", "http", "auto"]),
    one_shots=st.booleans(),
    dialect=st.sampled_from([OPEN_RESPONSES, DELTAWIRE, CODEX, PARTED, SMALL]),
)


@given(_READINGS, _RULES, st.dictionaries(st.sampled_from([None, 1, 2, 3]), _AGAINST), st.booleans())
def test_a_delta_is_only_planned_on_a_head_that_can_be_continued(
    found: Reading, rules: Rules, against: dict[int | None, str], warm: object
) -> None:
    places = Links(against, is_warm=bool(warm))
    made = planned(found, rules=rules, places=places)
    assert made.reason in {"", *REASONS}
    if made.match is None:
        assert made.transport in {"full", "http"}
        assert made.link is None or (found.near in SAME_CONVERSATION and not found.matches)
        return
    chosen = made.match
    assert rules.transport == "auto"
    assert found.base is not None
    assert chosen in found.matches
    assert chosen.new, "never an empty delta"
    assert chosen.head.envelope.changed(ENVELOPE, rules.dialect.honoured) is None
    assert (chosen.head.stored and rules.dialect.keeps) or places.reason_against(chosen.head) == ""
    assert not rules.dialect.unchained & REQUEST.members.keys()
    assert made.link in {None, chosen.head.link}
    assert made.link is None or places.reason_against(chosen.head) == ""
    rest = sum(len(name) + len(raw) for name, raw in REQUEST.members.items() if name != "input")
    assert rest + sum(map(len, chosen.new)) <= rules.dialect.max_frame
    for longer in found.matches[: found.matches.index(chosen)]:
        alone = planned(reading(longer), rules=rules, places=places)
        assert alone.match is None or longer.head is chosen.head


def test_where_continuations_are_refused_none_is_tried_and_nothing_else_changes() -> None:
    rules = replace(RULES, continues=False)
    assert planned(reading(Match(head(), NEW)), rules=rules) == Plan("full", "not_continued")
    assert planned(reading(), rules=rules) == Plan("full", "first_turn")
