from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

if TYPE_CHECKING:
    from tests.support.redis import RedisServer

pytestmark = pytest.mark.redis


def test_the_server_answers_and_keeps_nothing_over_a_restart(fresh_redis: RedisServer) -> None:
    with redis.Redis.from_url(fresh_redis.url) as client:
        client.set("k", "v")
        fresh_redis.wait_for_keys()
        assert client.get("k") == b"v"
    fresh_redis.stop()
    with redis.Redis.from_url(fresh_redis.url) as client, pytest.raises(redis.ConnectionError):
        client.get("k")
    fresh_redis.start()
    with redis.Redis.from_url(fresh_redis.url) as client:
        assert client.get("k") is None
