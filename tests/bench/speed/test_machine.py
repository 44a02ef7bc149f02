import platform
from pathlib import Path

from bench.speed import machine


def test_it_says_what_one_has_to_know_to_measure_again() -> None:
    said = machine.about()
    assert platform.python_version() in said
    assert "aiohttp 3" in said
    assert "load average" in said


def test_the_processor_is_named_as_the_system_names_it(tmp_path: Path) -> None:
    listed = tmp_path / "cpuinfo"
    listed.write_text("processor : 0\nmodel name : Some Processor 9\n")
    assert machine.processor(listed) == "Some Processor 9"
    assert machine.processor(tmp_path / "absent") == platform.machine()


def test_a_package_that_is_not_there_is_said_to_be_absent() -> None:
    assert "absent" not in machine.about().partition("uvloop")[0]
    assert machine.command(["bench", "start"]) == "deltawire bench start"
