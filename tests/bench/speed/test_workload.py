import json
from itertools import pairwise

import pytest

from bench.speed.figures import quantile
from bench.speed.workload import OUTPUT_MOST, PREAMBLE_BYTES, Load, library, request


def test_the_same_seed_gives_the_same_bytes_and_another_others() -> None:
    assert Load(1).history(5000) == Load(1).history(5000) != Load(2).history(5000)


def test_instructions_and_tools_are_as_large_as_those_of_coding_agents() -> None:
    envelope = Load(1).envelope()
    assert abs(len(envelope.instructions) + len(envelope.tools) - PREAMBLE_BYTES) < 4000
    assert len(json.loads(envelope.tools)) == 24


@pytest.mark.parametrize("size", [10_000, 100_000, 1_000_000])
def test_a_history_is_as_large_as_asked_and_every_output_answers_the_call_before_it(size: int) -> None:
    items = Load(3).history(size)
    assert size <= len(b",".join(items)) + 2 <= size + OUTPUT_MOST + 1000
    parsed = [json.loads(item) for item in items]
    assert parsed[0]["role"] == "user"
    for call, output in list(pairwise(parsed[1:]))[::2]:
        assert (call["type"], output["type"]) == ("function_call", "function_call_output")
        assert call["call_id"] == output["call_id"]


def test_outputs_of_tools_are_lognormal_and_bounded() -> None:
    load = Load(4)
    sizes = [len(json.loads(load.output("c"))["output"]) for _ in range(2000)]
    assert 800 < quantile(sizes, 0.5) < 1200
    assert 3000 < quantile(sizes, 0.9) < 5000
    assert max(sizes) <= OUTPUT_MOST


def test_an_output_may_be_of_a_given_size() -> None:
    load = Load(5)
    assert all(abs(len(load.output(f"call_{n}", 2000)) - 2000) < 100 for n in range(50))


def test_text_goes_on_from_the_end_of_the_library_at_its_beginning() -> None:
    assert len(Load(6).text(len(library()) + 10)) == len(library()) + 10


def test_a_request_is_json_and_ends_with_its_input() -> None:
    load = Load(7)
    items = load.history(3000)
    made = json.loads(request(load.envelope(), items, b'"stream":true'))
    assert list(made) == ["model", "instructions", "tools", "stream", "input"]
    assert made["input"] == [json.loads(item) for item in items]
