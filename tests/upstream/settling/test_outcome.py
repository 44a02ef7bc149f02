from upstream.engine import Usage
from upstream.settling.outcome import Outcome


def test_tokens_are_told_by_kind_and_the_owner_is_not_shown() -> None:
    outcome = Outcome("resp_1", b"me and only me", "http", "completed", "m", Usage(10, 4, 3, 1), 7, 0.5)

    assert outcome.tokens() == {"input": 10, "cached": 4, "output": 3, "reasoning": 1}
    assert "only me" not in repr(outcome)
