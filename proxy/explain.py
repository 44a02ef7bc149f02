"""`deltawire explain`: would the second body be a delta after the first?

The answer is that of the sidecar's own reading and plan; here it is only put into words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.dialect import OPEN_RESPONSES
from proxy.plan import Rules, before_matching, plan
from proxy.request import TurnRequest, read
from state.canon import canonical, difference, string_input
from state.commit import head_of
from state.digest import Keyed
from state.envelope import EnvelopeReader
from state.heads import Head, HeadIndex
from state.items import is_answer, is_reference, kind, reference_id
from state.match import Matcher, Reading
from wire.exact import Inexact, parse
from wire.split import Malformed, elements, members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.plan import Plan

_KIND = re.compile(r"[a-z0-9_.:-]{1,64}")
_RULES = Rules(dialect=OPEN_RESPONSES)
_ROOM = 2**30
_WORDS = {
    "empty_delta": "nothing is new after the echo of the answer",
    "reasoning_dropped": "the answer is echoed without its reasoning",
    "output_reordered": "the answer is echoed in another order",
    "client_state": "the second body refers to state at the upstream itself",
    "too_large": "what is new is more than a frame may carry",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is a delta, and the lines that say why."""

    delta: bool
    lines: tuple[str, ...]


def explain(first: bytes, second: bytes, answer: bytes | None = None, *, show: bool = False) -> Verdict:
    """The verdict on two request bodies, the second sent after the first was answered.

    With the first one's `answer` (a response object) its echo is checked item by item; without, the answered items
    that follow the known input are taken for it. No content is told unless `show`. Raises `Malformed`.
    """
    before, after = _read("first", first), _read("second", second)
    for name, turn in (("first", before), ("second", after)):
        if turn.client_state:
            return _no("client_state", f"the {name} body refers to state at the upstream itself")
    old, new = _listed(before.input), _listed(after.input)
    echo = _answered(answer) if answer is not None else _assumed(new[len(old) :])
    chosen = _planned(before, after, echo)
    if chosen.match is None:
        return _no(chosen.reason, _words(chosen, [*old, *echo], new, len(old)))
    covered = len(new) - len(chosen.match.new)
    lines = [f"delta: {covered} items covered ({len(old)} sent before, {covered - len(old)} answered), "]
    lines[0] += f"{len(new) - covered} new"
    lines += [f"  new $.input[{at}]: {_kind(new[at])}{_shown(new[at], show)}" for at in range(covered, len(new))]
    return Verdict(True, tuple(lines))


def _planned(before: TurnRequest, after: TurnRequest, echo: Sequence[bytes]) -> Plan:
    keyed = Keyed(b"explain")
    tenant = keyed.tenant(())
    index, envelopes = HeadIndex(_ROOM), EnvelopeReader(keyed)
    try:
        head = head_of(
            keyed,
            _reading("first", Matcher(keyed, index), tenant, before),
            tenant=tenant,
            envelope=envelopes.read(before.members),
            response_id="explain",
            stored=True,
            answer=[(raw,) for raw in echo],
            link=None,
        )
        if head is not None:
            index.add(head)
        reading = _reading("second", Matcher(keyed, index), tenant, after)
        envelope = envelopes.read(after.members)
    except Inexact:
        raise Malformed("a member cannot be read exactly") from None
    return plan(after, reading, envelope=envelope, tenant=tenant, places=_Anywhere(), rules=_RULES)


class _Anywhere:
    """Links of which nothing is known: a stored head is continued on any."""

    def reason_against(self, _: Head) -> str:
        return ""

    def warm(self, _: bytes) -> bool:
        return True


def _no(reason: str, words: str) -> Verdict:
    return Verdict(False, (f"no delta ({reason}): {words}",))


def _words(chosen: Plan, known: Sequence[bytes], new: Sequence[bytes], sent: int) -> str:
    if chosen.changed:
        return f"$.{chosen.changed} differs"
    if chosen.reason in _WORDS:
        return _WORDS[chosen.reason]
    for place, item in enumerate(known):
        if place == len(new):
            return f"the second input ends before $.input[{place}]"
        if not _stands_for(new[place], item):
            path = f"$.input[{place}]{(difference(item, new[place]) or '$').removeprefix('$')}"
            return f"{path} differs" if place < sent else f"{path} is not the echo of $.output[{place - sent}]"
    return "no answer of the upstream follows the known input"


def _stands_for(item: bytes, known: bytes) -> bool:
    value, named = _value(item), _value(known)
    if is_reference(value):
        name = reference_id(value)
        return name is not None and isinstance(named, dict) and named.get("id") == name
    return canonical(item) == canonical(known)


def _read(name: str, body: bytes) -> TurnRequest:
    try:
        found = read(body)
    except Malformed as error:
        raise Malformed(f"the {name} body: {error.reason}") from None
    early = before_matching(found, _RULES)
    if early is not None and early.reason == "unreadable":
        raise Malformed(f"the {name} body has no input that turns have")
    return found


def _reading(name: str, matcher: Matcher, tenant: bytes, turn: TurnRequest) -> Reading:
    try:
        return matcher.read(tenant, turn.input)
    except Malformed as error:
        raise Malformed(f"the {name} body: {error.reason}") from None


def _listed(raw: bytes) -> list[bytes]:
    return [string_input(raw)] if raw.startswith(b'"') else elements(raw)


def _answered(answer: bytes) -> list[bytes]:
    try:
        found = members(answer)
        output = elements(found.get("output", b"[]"))
    except Malformed as error:
        raise Malformed(f"the answer: {error.reason}") from None
    if "output" not in found:
        raise Malformed("the answer: it has no output, so it is no response object")
    return output


def _assumed(after: Sequence[bytes]) -> list[bytes]:
    """The items that answer at the beginning of what follows the known input."""
    end = next((place for place, raw in enumerate(after) if not is_answer(_value(raw))), len(after))
    return list(after[:end])


def _value(raw: bytes) -> object:
    try:
        return parse(raw)
    except Inexact:
        return None


def _kind(raw: bytes) -> str:
    named = kind(_value(raw))
    return named if named is not None and _KIND.fullmatch(named) else "item"


def _shown(raw: bytes, show: bool) -> str:  # noqa: FBT001 - a flag of the command, passed on
    return f" {raw.decode()}" if show else ""
