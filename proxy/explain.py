"""`deltawire explain`: would the second body be a delta after the first?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.request import read
from state.canon import canonical, difference, string_input
from state.digest import Keyed
from state.envelope import EnvelopeReader
from state.items import is_answer, is_reference
from wire.exact import Inexact, parse
from wire.split import Malformed, elements, members

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    before, after = read(first), read(second)
    for name, turn in (("first", before), ("second", after)):
        if not turn.readable:
            raise Malformed(f"the {name} body has no input that turns have")
        if turn.client_state:
            return Verdict(False, (f"no delta (client_state): the {name} body refers to state at the upstream itself",))
    reader = EnvelopeReader(Keyed(b"explain"))
    try:
        changed = reader.read(before.members).changed(reader.read(after.members))
    except Inexact:
        raise Malformed("a member cannot be read exactly") from None
    if changed is not None:
        return Verdict(False, (f"no delta (envelope_changed): $.{changed} differs",))
    return _items(_listed(before.input), _listed(after.input), _answered(answer), show=show)


def _items(old: Sequence[bytes], new: Sequence[bytes], echo: Sequence[bytes] | None, *, show: bool) -> Verdict:
    for place, item in enumerate(old):
        if place == len(new):
            return Verdict(False, (f"no delta (unknown_head): the second input ends before $.input[{place}]",))
        where = difference(item, new[place])
        if where is not None:
            return Verdict(False, (f"no delta (unknown_head): {_path(place, where)} differs",))
    place = len(old)
    if echo is None:
        end = place
        while end < len(new) and _answers(new[end]):
            end += 1
        if end == place:
            return Verdict(False, ("no delta (unknown_head): no answer of the upstream follows the known input",))
    else:
        end = place + len(echo)
        verdict = _echoed(echo, new, place)
        if verdict is not None:
            return verdict
    if end == len(new):
        return Verdict(False, ("no delta (empty_delta): nothing is new after the echo of the answer",))
    lines = [f"delta: {end} items covered ({place} sent before, {end - place} answered), {len(new) - end} new"]
    lines += [
        f"  new $.input[{index}]: {_kind(new[index])}{_shown(new[index], show)}" for index in range(end, len(new))
    ]
    return Verdict(True, tuple(lines))


def _echoed(echo: Sequence[bytes], new: Sequence[bytes], start: int) -> Verdict | None:
    tail = new[start : start + len(echo)]
    for offset, item in enumerate(echo):
        if offset < len(tail) and _stands_for(tail[offset], item):
            continue
        spoken = [raw for raw in echo if _kind(raw) != "reasoning"]
        if len(spoken) < len(echo) and [canonical(raw) for raw in spoken] == [
            canonical(raw) for raw in new[start : start + len(spoken)]
        ]:
            return Verdict(False, ("no delta (reasoning_dropped): the answer is echoed without its reasoning",))
        if sorted(canonical(raw) for raw in tail) == sorted(canonical(raw) for raw in echo):
            return Verdict(False, ("no delta (output_reordered): the answer is echoed in another order",))
        where = difference(item, tail[offset]) if offset < len(tail) else "$"
        path = _path(start + offset, where or "$")
        return Verdict(False, (f"no delta (history_diverged): {path} is not the echo of $.output[{offset}]",))
    return None


def _stands_for(item: bytes, output: bytes) -> bool:
    value = parse(item)
    if is_reference(value) and isinstance(value, dict):
        named = parse(output)
        return isinstance(named, dict) and named.get("id") == value.get("id")
    return canonical(item) == canonical(output)


def _listed(raw: bytes) -> list[bytes]:
    return [string_input(raw)] if raw.startswith(b'"') else elements(raw)


def _answered(answer: bytes | None) -> list[bytes] | None:
    if answer is None:
        return None
    found = members(answer)
    return elements(found.get("output", b"[]"))


def _answers(raw: bytes) -> bool:
    try:
        value = parse(raw)
    except Inexact:
        return False
    return is_answer(value) or is_reference(value)


def _kind(raw: bytes) -> str:
    try:
        value = parse(raw)
    except Inexact:
        return "item"
    if not isinstance(value, dict):
        return "item"
    return str(value.get("type") or value.get("role") or "item")


def _path(place: int, where: str) -> str:
    return f"$.input[{place}]{where.removeprefix('$')}"


def _shown(raw: bytes, show: bool) -> str:  # noqa: FBT001 - a flag of the command, passed on
    return f" {raw.decode()}" if show else ""
