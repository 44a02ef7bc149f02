from tests.upstream.engines.prompts import NO_TOKENS
from tests.upstream.helpers import items
from upstream.engine import Delta, Engine, Prompt
from upstream.engines.sim import Sim
from upstream.stages.persistent import Seq


def test_the_simulated_agent_keeps_the_contract() -> None:
    engine: Engine = Sim()

    assert engine.accepts("any name")


def test_a_delta_is_one_token_unless_it_says_otherwise() -> None:
    assert Delta("x").tokens == 1


def test_what_the_model_is_shown_does_not_stand_in_the_text_form_of_a_prompt() -> None:
    prompt = Prompt("m", "secret", Seq(items("secret")), (), "auto", {}, None, None, b"", NO_TOKENS)

    assert "secret" not in repr(prompt)
