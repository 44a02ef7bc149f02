import sys
from pathlib import Path

import pytest

from bench.child import StartFailed, running
from bench.speed import nginx


def test_its_configuration_names_the_upstream_its_port_and_its_own_folder_only() -> None:
    made = nginx.config("http://127.0.0.1:1234", 5678, Path("/tmp/x"))  # noqa: S108 - only a name
    assert "server 127.0.0.1:1234;" in made
    assert "listen 127.0.0.1:5678;" in made
    assert "proxy_buffering off;" in made
    assert made.count("_temp_path /tmp/x/") == 5
    assert made.count("{") == made.count("}")


async def test_where_it_is_not_installed_it_says_so(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import bench.speed.nginx as n; n.path = lambda: None; n.main()"]
    with pytest.raises(StartFailed, match="nginx is not installed"):
        async with running([*argv, "--upstream", "http://h:1", "--folder", str(tmp_path)], {"nginx"}):
            pass
