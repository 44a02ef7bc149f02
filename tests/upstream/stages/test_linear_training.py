from upstream.stages.linear import features, shipped
from upstream.stages.linear_training import THRESHOLD, examples, train


def test_the_texts_are_the_same_each_time_and_of_both_kinds() -> None:
    found = examples()

    assert found == examples()
    assert {bad for _, bad in found} == {True, False}
    assert len({text for text, bad in found if bad} & {text for text, bad in found if not bad}) == 0


def test_training_gives_the_model_that_is_shipped() -> None:
    model, kept = train(), shipped()

    assert (model.name, model.threshold) == (kept.name, kept.threshold) == ("linear", THRESHOLD)
    for text, _ in examples()[:100]:
        assert features(text)
        assert abs(model.score(text) - kept.score(text)) < 0.05


def test_it_has_learnt_its_own_texts() -> None:
    wrong = [text for text, bad in examples() if shipped().flags(text) is not bad]

    assert len(wrong) < len(examples()) / 20
