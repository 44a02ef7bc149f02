from __future__ import annotations

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from upstream.http.io import as_error, as_json, from_http, read_body
from wire.errors import ApiError, invalid_request


def test_an_answer_is_json_by_its_header() -> None:
    assert as_json(b"{}").content_type == "application/json"


def test_an_error_keeps_its_status_its_shape_and_its_headers() -> None:
    error = invalid_request("no", param="x")
    error.headers["retry-after"] = "3"
    answer = as_error(error, allow="POST")

    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert set(json.loads(answer.body)["error"]) == {"message", "type", "param", "code"}
    assert (answer.headers["retry-after"], answer.headers["allow"]) == ("3", "POST")


def test_a_path_that_is_not_there_is_named_with_its_method() -> None:
    error = from_http(web.HTTPNotFound(), make_mocked_request("POST", "/v1/none"))

    assert (error.status, error.message) == (404, "Invalid URL (POST /v1/none)")
    assert from_http(web.HTTPMethodNotAllowed("PUT", ["GET"]), make_mocked_request("PUT", "/")).status == 405


async def test_a_body_of_an_unknown_coding_is_an_error_of_the_api() -> None:
    class _Request:
        headers = make_mocked_request("POST", "/", headers={"content-encoding": "lzma"}).headers

        async def read(self) -> bytes:
            return b"x"

    with pytest.raises(ApiError) as caught:
        await read_body(_Request(), 10)  # type: ignore[arg-type]
    assert caught.value.status == 415
