from upstream.templates import chatml, harmony
from upstream.templates.named import DEFAULT, NAMED


def test_each_template_has_its_name() -> None:
    assert {"harmony": harmony, "chatml": chatml} == NAMED
    assert NAMED[DEFAULT] is harmony
