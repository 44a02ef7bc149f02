import pytest

from upstream.scripted.turn import ContextItem, Turn


def _turn(**members: bytes) -> Turn:
    return Turn(1, "ws", 1, b"", members=members)


def test_a_turn_tells_what_was_asked_for_from_what_belongs_to_its_way() -> None:
    turn = _turn(type=b'"response.create"', input=b"[]", stream_id=b'"a"', model=b'"m"', tools=b"[]")

    assert turn.envelope == {"model": "m", "tools": []}
    assert turn.body.keys() == turn.members.keys()


def test_names_are_empty_where_there_are_none() -> None:
    assert (_turn().lane, _turn().parent) == ("", "")
    assert (_turn(stream_id=b"null").lane, _turn(previous_response_id=b"3").parent) == ("", "")
    assert (_turn(stream_id=b'"a"').lane, _turn(previous_response_id=b'"resp_1"').parent) == ("a", "resp_1")


@pytest.mark.parametrize(("raw", "stored"), [(b"true", True), (b" false ", False), (b"null", True)])
def test_a_response_is_stored_unless_the_turn_says_no(raw: bytes, *, stored: bool) -> None:
    assert _turn(store=raw).stored is stored
    assert _turn().stored


def test_an_item_can_be_looked_into() -> None:
    assert ContextItem(b'{"type":"message"}').value == {"type": "message"}
