from upstream.scripted.catalogue import TURNS
from upstream.scripted.faults import RefuseUpgrade
from upstream.scripted.handshakes import HANDSHAKES
from upstream.scripted.script import Accept


def test_handshakes_are_refused_or_accepted_in_another_way_than_usual() -> None:
    assert all(one.answer != Accept() for one in HANDSHAKES.values())
    statuses = {one.answer.status for one in HANDSHAKES.values() if isinstance(one.answer, RefuseUpgrade)}
    assert statuses == {404, 429, 503}


def test_no_name_stands_for_a_fault_of_turns_as_well() -> None:
    assert not HANDSHAKES.keys() & TURNS.keys()


def test_every_entry_says_what_it_is_in_a_cell_of_a_table() -> None:
    for entry in HANDSHAKES.values():
        for text in (entry.wire, entry.stands_for, entry.seen):
            assert text
            assert not {"|", "\n"} & set(text)
