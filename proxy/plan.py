"""How a turn goes: delta, full or http, and why not a delta. One synchronous decision without I/O.

Theory. Each candidate head is asked, in the order of how much it covers, whether it can be continued now; the first
that can is. When none can, the answer of the best one is the reason, since it is what the operator would ask about.
A head that is stored continues on any link of an upstream that keeps it; any other lives and dies with the link whose
latest response it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from proxy.dialect import Dialect
    from proxy.request import TurnRequest
    from proxy.settings import Mode, OneShot
    from state.envelope import Envelope
    from state.heads import Head
    from state.match import Match, Reading

Transport = Literal["delta", "full", "http"]
SAME_CONVERSATION = frozenset({"reasoning_dropped", "output_reordered"})
"""Reasons for which the full turn certainly replaces the state that it nearly continued."""


class Places(Protocol):
    """What a plan asks about links."""

    def reason_against(self, head: Head) -> str:
        """Why a head that is not stored cannot be continued on its link now; empty when it can."""

    def warm(self, tenant: bytes) -> bool:
        """Whether a link without a conversation is open and free."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The way of one turn: `match` is set on a delta only; `link` is the link that the turn belongs on, if any."""

    transport: Transport
    reason: str = ""
    match: Match | None = None
    link: int | None = None
    changed: str = ""

    def __post_init__(self) -> None:
        if (self.transport == "delta") != (self.match is not None) or bool(self.reason) == (self.transport == "delta"):
            raise ValueError("a delta has a match and no reason, and only a delta has")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator and the upstream allow. `against_links`: the reason for which the turn gets no link.

    `one_shots`: whether conversations of this caller's are not gone on with.
    """

    transport: Mode = "auto"
    one_shot: OneShot = "link"
    one_shots: bool = False
    dialect: Dialect
    against_links: str = ""
    continues: bool = True


def before_matching(request: TurnRequest, rules: Rules) -> Plan | None:
    """The plan, where it does not depend on what is known of the conversation."""
    if rules.transport == "http":
        return Plan("http", "disabled")
    if not request.readable:
        return Plan("http", "unreadable")
    if request.client_state:
        return Plan("http", "client_state")
    if rules.against_links:
        return Plan("http", rules.against_links)
    return None


def plan(
    request: TurnRequest,
    reading: Reading,
    *,
    envelope: Envelope,
    tenant: bytes,
    places: Places,
    rules: Rules,
) -> Plan:
    """The plan of a turn that has been read and matched."""
    if reading.unknown_reference:
        return Plan("http", "client_state")
    reason = changed = ""
    if rules.transport == "full":
        reason = "disabled"
    elif reading.matches and not rules.continues:
        reason = "not_continued"
    else:
        for match in reading.matches:
            against, field = _against(request, match, envelope, places, rules)
            if not against:
                return Plan("delta", match=match, link=_place(match.head, places))
            if not reason:
                reason, changed = against, field
    reason = reason or reading.near or ("unknown_head" if reading.answers else "first_turn")
    if _size(request) > rules.dialect.max_frame:
        return Plan("http", "too_large")
    alone = rules.one_shot == "http" or (rules.one_shot == "auto" and rules.one_shots)
    if reason == "first_turn" and alone and not request.tools and not places.warm(tenant):
        return Plan("http", "one_shot")
    replaced = reading.near_head if not reading.matches and reading.near in SAME_CONVERSATION else None
    link = _place(replaced, places) if replaced is not None else None
    return Plan("full", reason, link=link, changed=changed)


def _against(request: TurnRequest, match: Match, envelope: Envelope, places: Places, rules: Rules) -> tuple[str, str]:
    """Why a head cannot be continued now, and the envelope field that is in the way."""
    changed = match.head.envelope.changed(envelope, rules.dialect.honoured)
    if changed is not None:
        return "envelope_changed", changed
    for name in rules.dialect.unchained:
        if request.members.get(name, b"null") != b"null":
            return "field_unchained", name
    if not match.new:
        return "empty_delta", ""
    if _size(request) - len(request.input) + sum(map(len, match.new)) > rules.dialect.max_frame:
        return "too_large", ""
    anywhere = match.head.stored and rules.dialect.keeps
    return ("" if anywhere else places.reason_against(match.head)), ""


def _place(head: Head, places: Places) -> int | None:
    """The link that a head holds right now; one that has moved on belongs to another conversation state."""
    return head.link if not places.reason_against(head) else None


def _size(request: TurnRequest) -> int:
    return sum(len(name) + len(raw) + 4 for name, raw in request.members.items())
