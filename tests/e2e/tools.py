"""The one tool that agents in these tests really run: a shell that is only ever told to echo."""

from __future__ import annotations

import shlex
import subprocess


def run(command: str) -> str:
    """What the command printed. Raises `ValueError` for any other command than `echo`."""
    words = shlex.split(command)
    if words[:1] != ["echo"]:
        raise ValueError("only echo is run")
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
