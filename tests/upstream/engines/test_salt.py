from __future__ import annotations

import re

from upstream.engines.salt import Salts


def test_each_owner_has_a_salt_of_its_own_that_any_engine_takes() -> None:
    salts = Salts("a secret of the server")
    found = {salts.of(owner) for owner in (b"", b"a", b"b", b"a" * 1000)}

    assert len(found) == 4
    assert all(re.fullmatch(r"[0-9a-f]{64}", salt) for salt in found)


def test_with_a_secret_they_outlive_the_process() -> None:
    assert Salts("s").of(b"a") == Salts("s").of(b"a") != Salts("t").of(b"a")


def test_without_one_nobody_can_work_them_out() -> None:
    salts = Salts()

    assert salts.of(b"a") == salts.of(b"a") != Salts().of(b"a")
