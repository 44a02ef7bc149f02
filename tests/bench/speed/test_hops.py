import pytest

from bench.speed import hops, nginx
from bench.speed.turns import Http, Talk
from bench.speed.workload import Load


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nginx, "path", lambda: None)
    assert hops.names() == [hops.DIRECT, hops.NAIVE, hops.SIDECAR]
    monkeypatch.setattr(nginx, "path", lambda: "/usr/sbin/nginx")
    assert hops.names() == [hops.DIRECT, hops.NAIVE, hops.NGINX, hops.SIDECAR]


@pytest.mark.parametrize("name", hops.names())
async def test_every_hop_carries_a_conversation_and_says_what_it_costs(name: str) -> None:
    load = Load(1)
    talk = Talk(load.envelope())
    async with hops.stub(events=3) as upstream, hops.opened(name, upstream) as hop:
        client = Http(hop.base)
        first, second = [await client.turn(talk, [load.question()]) for _ in range(2)]
        await client.close()
        assert first.id != second.id
        assert second.transport == ("delta" if name == hops.SIDECAR else "")
        assert (hop.cpu() > 0) is (name != hops.DIRECT)
