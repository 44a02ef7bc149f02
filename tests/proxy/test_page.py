"""The live page: one file, nothing from elsewhere, and only figures that the admin side has."""

from __future__ import annotations

import re
from dataclasses import fields
from html.parser import HTMLParser

from proxy.page import PAGE
from telemetry.recent import Recent
from telemetry.turn import TurnRecord

SCRIPT = PAGE[PAGE.index("<script>") : PAGE.index("</script>")]


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= dict(attrs)


def seen() -> _Seen:
    reader = _Seen()
    reader.feed(PAGE)
    reader.close()
    return reader


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert not {"src", "href"} & seen().attributes.keys()
    assert "//" not in PAGE
    assert set(re.findall(r'"([a-z]+)(?:\?limit=\d+)?"(?=[,\]])', SCRIPT)) >= {"turns", "links", "heads"}
    assert re.findall(r'fetch\("([^"]+)"', SCRIPT) == ["/api/"]


def test_the_page_shows_only_what_a_recent_turn_has() -> None:
    recent = Recent()
    recent.add(TurnRecord("req_1"))
    (turn,) = recent.newest()
    named = set(re.findall(r"\bturn\.(\w+)", SCRIPT))
    assert named
    assert named <= turn.keys()
    assert {field.name for field in fields(TurnRecord)} <= turn.keys()


def test_what_comes_from_outside_is_shown_as_text_never_as_markup() -> None:
    assert "textContent" in SCRIPT
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", SCRIPT)


def test_every_column_has_its_cell_and_every_element_that_the_script_names_is_there() -> None:
    cells = SCRIPT[SCRIPT.index("const cells = [") : SCRIPT.index("];")]
    assert seen().tags.count("th") == cells.count(",") + 1
    for name in re.findall(r'getElementById\("(\w+)"\)', SCRIPT):
        assert f'id="{name}"' in PAGE


def test_the_page_says_when_the_sidecar_no_longer_answers() -> None:
    assert SCRIPT.count("refresh()") == 2
    assert "refresh().catch(" in SCRIPT
    assert "no answer from the sidecar" in SCRIPT
