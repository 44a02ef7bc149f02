import aiohttp
import pytest

from telemetry.logs import capture
from upstream.scripted import running


async def test_it_says_where_it_serves_and_what_points_a_sidecar_there(http: aiohttp.ClientSession) -> None:
    served = await running.start("127.0.0.1", 0, fault={}, seed=0, pause=1.0)
    listening, export = served.told
    origin = listening.removeprefix("deltawire chaos-upstream listening on ")
    assert export == f"export DELTAWIRE_UPSTREAM={origin}/v1"
    async with http.post(f"{origin}/v1/responses", json={"input": "hi"}) as answer:
        assert (await answer.json())["status"] == "completed"
    await served.close()
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post(f"{origin}/v1/responses", json={"input": "hi"})


async def test_every_fault_that_it_shows_is_told_by_its_name_and_nothing_else_is(http: aiohttp.ClientSession) -> None:
    with capture() as lines:
        served = await running.start("127.0.0.1", 0, fault={"failed": 1.0, "upgrade-503": 1.0}, seed=0, pause=1.0)
        async with http.post(f"{served.upstream.url}/responses", json={"input": "unspeakable"}) as answer:
            assert (await answer.json())["status"] == "failed"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{served.upstream.url}/responses")
        await served.close()
        calm = await running.start("127.0.0.1", 0, fault={}, seed=0, pause=1.0)
        async with (
            http.post(f"{calm.upstream.url}/responses", json={"input": "hi"}),
            http.ws_connect(f"{calm.upstream.url}/responses"),
        ):
            pass
        await calm.close()
    assert [(line["event"], line["fault"]) for line in lines] == [("fault", "failed"), ("fault", "upgrade-503")]
    assert "unspeakable" not in str(lines)


async def test_each_one_names_its_responses_anew(http: aiohttp.ClientSession) -> None:
    names = set()
    for _ in range(2):
        served = await running.start("127.0.0.1", 0, fault={}, seed=0, pause=1.0)
        async with http.post(f"{served.upstream.url}/responses", json={"input": "hi"}) as answer:
            names.add((await answer.json())["id"])
        await served.close()
    assert len(names) == 2


async def test_a_fault_that_is_none_is_refused_before_anything_listens() -> None:
    with pytest.raises(ValueError, match="no fault 'fire'"):
        await running.start("127.0.0.1", 0, fault={"fire": 1.0}, seed=0, pause=1.0)
