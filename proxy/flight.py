"""A turn over a link: send, relay, commit; after a refusal once more, whole."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from proxy import frame, headers
from proxy.answer import Answer
from proxy.learned import unchained
from proxy.link import LinkEnded
from proxy.links import NoLinkError
from proxy.plan import Plan
from proxy.recovery import NOT_WRITTEN, OWN, REPLAYED, Came, Does, Refusal, When, does
from proxy.relay import Relay, Timing
from proxy.resumed import ResumedAnswer
from state import context
from state.commit import head_of
from wire.errors import UNAUTHORIZED, is_about_previous

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from proxy.client import ClientSide
    from proxy.link import Link
    from proxy.request import TurnRequest
    from proxy.services import Services
    from state.envelope import Envelope
    from state.heads import Head
    from state.match import Reading
    from telemetry.turn import TurnRecord


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a turn when its plan is made. `arrived`: when its body was whole (monotonic seconds)."""

    request: TurnRequest
    tenant: bytes
    reading: Reading
    envelope: Envelope
    arrived: float


class Flight:
    """One turn on its way."""

    def __init__(
        self,
        services: Services,
        http_request: web.Request,
        client: ClientSide,
        record: TurnRecord,
        facts: Facts,
    ) -> None:
        self._services = services
        self._handshake = headers.for_handshake(http_request.headers, services.settings.forward_headers)
        self._query = http_request.rel_url.raw_query_string
        self._client = client
        self._record = record
        self._facts = facts
        self._held: Link | None = None
        self._context: bytes | None = None
        self._latest = False

    async def run(self, plan: Plan) -> web.StreamResponse:
        """The finished answer. Raises `NoLinkError` when the turn has to go by HTTP; nothing was sent then."""
        may_retry = True
        while True:
            self._record.transport = plan.transport
            self._record.reason = self._record.reason or plan.reason
            outcome = await self._attempt(plan, may_retry=may_retry)
            if not isinstance(outcome, Refusal):
                return outcome
            may_retry = False
            self._record.retries += (outcome.cause,)
            self._services.metrics.retried(outcome.cause)
            plan = Plan("full", outcome.reason)

    async def _attempt(self, plan: Plan, *, may_retry: bool) -> web.StreamResponse | Refusal:
        head = plan.match.head if plan.match is not None else None
        with self._services.memory.leased(head):
            link = await self._services.links.acquire(self._facts.tenant, plan.link, self._handshake, self._query)
            self._held = link
            self._latest = head is not None and link.slot.latest is head
            try:
                if head is not None and not head.stored and not self._latest:
                    raise AssertionError("a head that is not stored is continued on its own link only")
                return await self._on_link(link, plan, head, may_retry=may_retry)
            finally:
                # Still held: the client left, or something broke. What the link carries is not for the next turn.
                if self._held is not None:
                    self._held.end("client_gone")

    async def _on_link(
        self,
        link: Link,
        plan: Plan,
        head: Head | None,
        *,
        may_retry: bool,
    ) -> web.StreamResponse | Refusal:
        if not may_retry and link.sent is not None:
            link.sent.clear()  # the second try carries everything whole
        keyed, request, settings = self._services.memory.keyed, self._facts.request, self._services.settings
        self._context = context.after(keyed, plan.match) if plan.match is not None else self._facts.reading.context
        shown_previous = request.members.get("previous_response_id", b"null")
        now = frame.asked(request.members, keyed) if link.appends else None
        resumes = self._latest and now is not None and link.asked is not None
        answer = ResumedAnswer(request.members, shown_previous) if resumes else Answer(shown_previous)
        out = self._frame(link, plan, now if resumes else None)
        try:
            await link.send(out)
        except LinkEnded as ended:
            came, when = (Came.ENDED, When.SILENT) if ended.written else (Came.NOT_WRITTEN, When.UNSENT)
            replays = settings.replay_ambiguous == "on" and link.ended != "too_large"
            done = does(came, when, may_retry=may_retry, replays=replays)
            if done is Does.HTTP:
                raise NoLinkError("link_lost") from None
            if not ended.written:
                return NOT_WRITTEN
            self._lost(link, answer, head, len(out))
            if done is Does.AGAIN:
                return REPLAYED
            self._record.error = OWN[came].code or ""
            return await self._client.error(OWN[came])
        self._note_sent(link, plan, len(out))
        outcome = await Relay(
            link,
            answer,
            self._client,
            self._record,
            streamed=request.stream,
            chained=head is not None,
            may_retry=may_retry,
            timing=Timing(
                settings.hold,
                settings.silence,
                settings.first_event_timeout,
                settings.event_timeout,
                settings.replay_ambiguous == "on",
            ),
            on_end=lambda: self._settle(link, answer, head, now),
        ).run()
        if isinstance(outcome, Refusal) and outcome is not REPLAYED:
            self._refused(link, outcome)
        elif self._held is not None:
            self._lost(link, answer, head, len(out))
        return outcome

    def _frame(self, link: Link, plan: Plan, now: Mapping[str, bytes] | None) -> bytes:
        """`now` is how the turn is asked, where that is to be compared with how the link's latest response was."""
        members = self._facts.request.members
        if plan.match is None:
            return frame.full(members, link.sent)
        response_id, new = plan.match.head.response_id, plan.match.new
        proof = context.bound(link.nonce, self._context) if link.nonce and self._context is not None else ""
        self._record.proved = bool(proof)
        if now is None or link.asked is None:
            return frame.delta(members, response_id, new, link.sent, context=proof)
        return frame.append(members, response_id, new, now=now, before=link.asked, sent=link.sent, context=proof)

    def _note_sent(self, link: Link, plan: Plan, size: int) -> None:
        record, count = self._record, self._facts.reading.count
        record.link = link.slot.id
        record.upstream_bytes += size
        record.items_sent = len(plan.match.new) if plan.match is not None else count
        record.items_covered = count - record.items_sent
        if record.overhead_s is None:
            record.overhead_s = monotonic() - self._facts.arrived

    def _settle(self, link: Link, answer: Answer, head: Head | None, asked: Mapping[str, bytes] | None) -> None:
        """The terminal event is read: commit at `completed`, forget the parent after anything else, free the link.

        It happens before the client sees the end, so that its next turn finds the head.
        """
        memory, record, facts = self._services.memory, self._record, self._facts
        self._unname(link, answer)
        if head is not None:
            self._judge(answer)
        latest: Head | None = None
        if answer.completed:
            record.response_id = answer.response_id
            record.usage_input, record.usage_output, record.usage_cached = answer.usage()
            latest = head_of(
                memory.keyed,
                facts.reading,
                tenant=facts.tenant,
                envelope=facts.envelope,
                response_id=answer.response_id,
                stored=facts.request.stored,
                answer=answer.forms(streamed=facts.request.stream),
                link=link.slot.id,
                turns=head.turns + 1 if head is not None else 1,
                context=self._context,
            )
            if latest is not None:
                memory.add(latest)
        elif head is not None:
            # The upstream drops a parent whose continuation failed on its own lane.
            memory.drop(head)
        link.asked = asked if latest is not None else None
        self._services.links.release(link, latest)
        self._held = None
        if answer.refused is not None and answer.refused.status == UNAUTHORIZED:
            self._services.links.unauthorized(facts.tenant)

    def _judge(self, answer: Answer) -> None:
        """What came of a continuation tells whether the upstream continues at all, elsewhere, and beside what."""
        links, tenant, now, refused = self._services.links, self._facts.tenant, monotonic(), answer.refused
        if refused is not None and (field := unchained(refused)):
            links.learned.not_beside(tenant, field, now)
        elif self._latest and answer.completed:
            links.trust.kept(tenant)
        elif self._latest and refused is not None:
            links.trust.refused(tenant, refused, now)
        elif answer.completed or (refused is not None and is_about_previous(refused)):
            links.learned.elsewhere(tenant, now, found=answer.completed)

    def _unname(self, link: Link, answer: Answer) -> None:
        """An id names one state: one that is given to a second response of the link no longer names the first."""
        before = link.slot.latest
        if before is not None and before.response_id == answer.response_id:
            self._services.memory.drop(before)

    def _lost(self, link: Link, answer: Answer, head: Head | None, size: int) -> None:
        """The link died with the turn on it: the client's own retry shall not depend on what the upstream kept."""
        self._services.links.lost(link)
        self._unname(link, answer)
        if link.ended == "too_large":
            self._services.links.learned.too_large(self._facts.tenant, size, monotonic())
        if head is not None:
            self._services.memory.drop(head)

    def _refused(self, link: Link, refusal: Refusal) -> None:
        if refusal.ends_link:
            link.end("connection_limit")
