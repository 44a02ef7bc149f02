from __future__ import annotations

from typing import Any

from tests.upstream.helpers import items
from upstream.kept.lineage import Place
from upstream.kept.shelf import LOG, Shelf
from upstream.kept.store import Stored
from upstream.kept.vault import Vault
from upstream.stages.items import output_item
from upstream.stages.pipeline import EMPTY, extend

_ME, _YOU = b"m" * 16, b"y" * 16
_A, _B = b"a" * LOG, b"b" * LOG
_SHELF = Shelf(Vault("a secret of the tests"), 60_000)


def _stored(name: str) -> Stored:
    fresh = items("a question that nobody may read")
    made = output_item({"type": "message", "id": "msg_1", "role": "assistant", "content": "an answer as well"})
    return Stored(name, _ME, None, b'{"id":"%b"}' % name.encode(), tuple(fresh), (made,), extend(EMPTY, [*fresh, made]))


def _put(commands: list[Any]) -> dict[Any, Any]:
    """What a Redis has after them."""
    there: dict[Any, Any] = {}
    for command in commands:
        if command[0] == "SET":
            there[command[1]] = command[2]
        elif command[0] == "HSET":
            there[command[1], command[2]] = command[3]
    return there


def test_what_is_written_reads_again_and_lives_as_long_as_it_is_told_to() -> None:
    stored = _stored("resp_1")
    commands = _SHELF.kept(stored, Place(((_A, 2), (_B, 1)), forks=(_A, 2)))
    there = _put(commands)

    assert commands[1] == ("HLEN", _SHELF.log(_ME, _B))
    key = _SHELF.response(_ME, "resp_1")
    record = _SHELF.record(key, there[key])
    assert record is not None
    assert (record.response, record.path) == (stored.response, ((_A, 2), (_B, 1)))
    log = _SHELF.log(_ME, _B)
    turn = _SHELF.turn(log, there[log, 0])
    assert turn is not None
    assert turn.items(EMPTY) == [*stored.input, *stored.output]
    pointer = _SHELF.pointer(_ME, there[_SHELF.item(_ME, "msg_1")])
    assert pointer == (key, log, 0, 1)
    assert there[_SHELF.fork(_ME, _A, 2)] == 1
    assert {command[-1] for command in commands if command[0] in {"SET", "PEXPIRE"}} == {60_000}
    assert {command[1] for command in commands if command[0] == "PEXPIRE"} == {_SHELF.log(_ME, _A), log}


def test_neither_keys_nor_values_tell_ids_or_content() -> None:
    told = repr(_SHELF.kept(_stored("resp_1"), Place(((_A, 1),))))

    for text in ("resp_1", "msg_1", "nobody", "answer"):
        assert text not in told


def test_keys_are_those_of_one_owner_in_one_slot() -> None:
    keys = {_SHELF.response(_ME, "x"), _SHELF.item(_ME, "x"), _SHELF.log(_ME, _A), _SHELF.fork(_ME, _A, 1)}

    assert len(keys) == 4
    assert {key.split("}")[0] for key in keys} == {f"deltawire:{{{_ME.hex()}"}
    assert _SHELF.response(_YOU, "x") not in keys


def test_what_is_not_ours_is_nothing() -> None:
    there = _put(_SHELF.kept(_stored("resp_1"), Place(((_A, 1),))))
    mine, yours = _SHELF.response(_ME, "resp_1"), _SHELF.response(_YOU, "resp_1")

    assert _SHELF.record(yours, there[mine]) is None
    assert _SHELF.record(mine, None) is None
    assert _SHELF.turn(mine, there[mine]) is None
    assert _SHELF.turn(mine, b"x") is None
