"""One turn from its body to its way: read, match, plan, and the transport that follows."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from proxy import bodies
from proxy.flight import Facts, Flight
from proxy.links import NoLinkError
from proxy.plan import Plan, Rules, before_matching, plan
from proxy.request import TurnRequest, is_json, read
from proxy.tenants import shown
from wire.coding import BodyError, decode
from wire.errors import UNAUTHORIZED, invalid_request
from wire.exact import Inexact
from wire.split import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from proxy.client import ClientSide
    from proxy.services import Services
    from telemetry.turn import TurnRecord


async def serve(
    services: Services,
    request: web.Request,
    client: ClientSide,
    record: TurnRecord,
    trace: Mapping[str, str],
) -> web.StreamResponse:
    """Answer one `POST /responses`. `trace`: headers that name its span to the upstream, where they can be sent."""
    limit = services.settings.max_body
    try:
        raw = await bodies.read(request.content.iter_any(), request.content_length, limit)
        arrived = monotonic()
        record.client_bytes = len(raw)
        body = decode(raw, ",".join(request.headers.getall("content-encoding", ())), limit)
    except BodyError as error:
        record.error = error.code
        return await client.error(error.error)
    reason = "unreadable"
    try:
        turn = read(body)
    except Malformed as error:
        if not is_json(body):
            record.error = "invalid_json"
            message = f"We could not parse the JSON body of your request: {error.reason}."
            return await client.error(invalid_request(message, code="invalid_json"))
    else:
        record.stream, record.model = turn.stream, turn.model
        facts, chosen = await _planned(services, request, turn, record, arrived)
        reason = chosen.reason
        if facts is not None and chosen.transport != "http":
            try:
                return await Flight(services, request, client, record, facts).run(chosen)
            except NoLinkError as error:
                reason = error.reason
    record.transport = "http"
    record.reason = record.reason or reason
    answered = await services.http.turn(request, client, record, raw, trace)
    if record.status == UNAUTHORIZED:
        services.links.unauthorized(services.tenant(request))
    return answered


async def _planned(
    services: Services,
    request: web.Request,
    turn: TurnRequest,
    record: TurnRecord,
    arrived: float,
) -> tuple[Facts | None, Plan]:
    settings, memory = services.settings, services.memory
    tenant = services.tenant(request)
    record.tenant = shown(tenant)
    rules = Rules(
        transport=settings.transport,
        one_shot=settings.one_shot,
        one_shots=services.habits.one_shots(tenant),
        dialect=services.links.learned.dialect(services.links.dialect, tenant, monotonic()),
        against_links=services.links.gates.against_links(tenant, monotonic()),
        continues=services.links.trust.allows(tenant, monotonic()),
    )
    early = before_matching(turn, rules)
    if early is not None:
        return None, early
    try:
        envelope = memory.envelope(turn.members)
        reading = await memory.read(tenant, turn.input, stored=turn.stored)
    except (Malformed, Inexact):
        return None, Plan("http", "unreadable")
    record.items_total = reading.count
    if reading.answers:
        services.habits.went_on(tenant)
    elif not turn.tools:
        services.habits.began(tenant)
    chosen = plan(turn, reading, envelope=envelope, tenant=tenant, places=services.links, rules=rules)
    record.envelope_changed = chosen.changed
    return Facts(turn, tenant, reading, envelope, arrived), chosen
