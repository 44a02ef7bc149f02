from pathlib import Path

import pytest

from bench.speed.counts import Carried, Counts


def test_what_one_process_tells_another_reads(tmp_path: Path) -> None:
    ours = Counts(tmp_path / "counts", create=True)
    theirs = Counts(tmp_path / "counts")
    assert ours.read() == Carried(0, 0)
    theirs.tell(7, 2**40)
    assert ours.read() == Carried(7, 2**40)
    ours.close()
    theirs.close()


def test_a_file_that_nobody_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="counts"):
        Counts(tmp_path / "counts")


def test_what_was_carried_in_between_is_the_difference() -> None:
    assert Carried(10, 8).since(Carried(4, 3)) == Carried(6, 5)
