"""HTTP side of responses that are there already: retrieve, follow, list, cancel, delete."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from upstream.http import listing
from upstream.http.io import OWNER, as_json, send_events
from upstream.kept.store import Stored
from upstream.problems import unsupported
from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    from upstream.http.jobs import Job, Jobs
    from upstream.kept.recall import Recall

_JSON = msgspec.json.Encoder()
_MAX_DIGITS = 15


class _Kind(msgspec.Struct):
    background: bool = False


_KIND = msgspec.json.Decoder(_Kind)


class StoredApi:
    """The handlers under `/responses/{id}`. A job that is still known counts before what was stored of it."""

    def __init__(self, recall: Recall, jobs: Jobs) -> None:
        self._recall, self._jobs = recall, jobs

    def routes(self, base: str) -> list[web.RouteDef]:
        """Their paths."""
        one = f"{base}/responses/{{id}}"
        return [
            web.get(one, self.retrieve, allow_head=False),
            web.delete(one, self.delete),
            web.post(f"{one}/cancel", self.cancel),
            web.get(f"{one}/input_items", self.input_items, allow_head=False),
        ]

    async def retrieve(self, request: web.Request) -> web.StreamResponse:
        """`GET /responses/{id}`; with `stream=true` the events after number `starting_after`, then those to come."""
        job, stored = await self._find(request)
        if request.query.get("stream", "false").lower() == "true":
            after = _number(request.query.get("starting_after"))
            if job is None or not job.streamed:
                raise unsupported("stream", "Only responses made with 'background' and 'stream' can be streamed again.")
            async with aclosing(job.follow(after)) as events:
                return await send_events(request, events)
        return as_json(job.run.turn.answer.snapshot() if job is not None else stored.response)

    async def cancel(self, request: web.Request) -> web.Response:
        """`POST /responses/{id}/cancel`: the response as it is then; one that has ended stays as it was."""
        job, stored = await self._find(request)
        if job is not None:
            await self._jobs.cancel(job)
            return as_json(job.run.turn.answer.snapshot())
        if not _KIND.decode(stored.response).background:
            raise invalid_request("Cannot cancel a synchronous response.")
        return as_json(stored.response)

    async def delete(self, request: web.Request) -> web.Response:
        """`DELETE /responses/{id}`; one that runs is ended."""
        job, stored = await self._find(request)
        if job is not None:
            await self._jobs.forget(job)
        self._recall.forget(stored.id, stored.owner)
        return as_json(_JSON.encode({"id": stored.id, "object": "response", "deleted": True}))

    async def input_items(self, request: web.Request) -> web.Response:
        """`GET /responses/{id}/input_items`: what the request brought, newest first unless `order=asc`."""
        _, stored = await self._find(request)
        query = request.query
        page = listing.page(stored, order=query.get("order"), after=query.get("after"), limit=query.get("limit"))
        return as_json(_JSON.encode(page))

    async def _find(self, request: web.Request) -> tuple[Job | None, Stored]:
        """The response. Raises `ApiError` 404 when there is none of this owner's."""
        response_id, owner = request.match_info["id"], request[OWNER]
        job = self._jobs.get(response_id, owner)
        stored = await self._recall.find(response_id, owner)
        if job is not None:
            turn = job.run.turn
            return job, stored or Stored(response_id, owner, None, b"", turn.fresh, (), turn.context)
        if stored is None:
            raise ApiError(404, f"Response with id '{response_id[:128]}' not found.")
        return None, stored


def _number(text: str | None) -> int:
    if text is None:
        return -1
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise invalid_request("Invalid 'starting_after': expected a sequence number.", param="starting_after")
    return int(text)
