"""compose.yaml against the published schema of Compose files, and against itself and the image file."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from tests.helm.answering import answering
from tests.helm.chart import ROOT

SCHEMA = Path(__file__).parent / "data" / "compose-spec.json"
Service = dict[str, Any]


class UniqueKeys(yaml.SafeLoader):
    """Compose refuses a key that stands twice; YAML libraries keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((ROOT / "compose.yaml").read_text(encoding="utf-8"), UniqueKeys)  # noqa: S506 (safe)
    return loaded


def services() -> dict[str, Service]:
    found: dict[str, Service] = document()["services"]
    return found


def interpolated(value: str, environment: dict[str, str]) -> str:
    """The forms that this file uses: `${NAME:-default}` and `${NAME:?message}`."""

    def one(match: re.Match[str]) -> str:
        name, operator, rest = match.groups()
        if environment.get(name):
            return environment[name]
        if operator == ":?":
            raise ValueError(rest)
        return rest

    return re.sub(r"\$\{([A-Z_]+)(:[-?])([^}]*)\}", one, value)


def seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


def test_the_file_is_what_the_compose_specification_allows() -> None:
    raw = SCHEMA.read_bytes()
    assert hashlib.sha256(raw).hexdigest() == "1f91e091f16b2dd50ab8860e02bb391d22df553d91c145eacedb1b6eff9c3f0e"
    jsonschema.Draft7Validator(json.loads(raw)).validate(document())


@pytest.mark.parametrize(
    "damage",
    [{"healthcheck": {"test": 3}}, {"depends_on": {"redis": {"condition": "alive"}}}, {"stop_signal_period": "1s"}],
)
def test_the_schema_would_notice(damage: dict[str, Any]) -> None:
    broken = document()
    broken["services"]["sidecar"].update(damage)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(json.loads(SCHEMA.read_bytes())).validate(broken)


def test_three_services_each_with_a_health_check_that_the_others_wait_for() -> None:
    found = services()
    assert set(found) == {"redis", "server", "sidecar"}
    assert all(service["healthcheck"]["test"][0] == "CMD" for service in found.values()), "no shell"
    assert found["sidecar"]["depends_on"] == {
        "redis": {"condition": "service_healthy"},
        "server": {"condition": "service_healthy"},
    }


def test_only_the_sidecar_is_published_and_only_on_loopback() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"sidecar": ["127.0.0.1:8787:8787", "127.0.0.1:8790:8790"]}
    listening = [services()["sidecar"]["environment"][name] for name in ("DELTAWIRE_LISTEN", "DELTAWIRE_ADMIN")]
    assert listening == ["0.0.0.0:8787", "0.0.0.0:8790"], (
        "what is published must be reachable from outside the container"
    )


def test_the_image_is_built_from_the_image_file_and_runs_its_commands() -> None:
    for name, command in (("server", ["upstream"]), ("sidecar", ["proxy"])):
        service = services()[name]
        assert (service["build"], service["command"]) == (".", command)
    assert 'ENTRYPOINT ["deltawire"]' in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_addresses_between_services_name_services_and_their_ports() -> None:
    environment = services()["sidecar"]["environment"]
    assert interpolated(environment["DELTAWIRE_UPSTREAM"], {}) == "http://server:8788/v1"
    assert services()["server"]["environment"]["DELTAWIRE_LISTEN"].endswith(":8788")
    assert environment["DELTAWIRE_STATE"] == "redis://redis:6379/0"


def test_the_secret_is_asked_for_and_not_written_down() -> None:
    secret = services()["sidecar"]["environment"]["DELTAWIRE_SECRET"]
    with pytest.raises(ValueError, match="random value"):
        interpolated(secret, {})
    assert interpolated(secret, {"DELTAWIRE_SECRET": "s"}) == "s"


def test_every_container_is_as_restricted_as_in_the_cluster() -> None:
    for service in services().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "network_mode", "volumes"} & set(service)


def test_containers_are_not_killed_before_their_drain_is_over() -> None:
    sidecar = services()["sidecar"]
    assert seconds(sidecar["stop_grace_period"]) >= seconds(sidecar["environment"]["DELTAWIRE_DRAIN"]) + 5


def test_redis_keeps_nothing_on_disk_and_makes_room() -> None:
    command = services()["redis"]["command"]
    settings = dict(zip(command[1::2], command[2::2], strict=True))
    assert settings == {"--save": "", "--appendonly": "no", "--maxmemory": "256mb", "--maxmemory-policy": "allkeys-lru"}


@pytest.mark.parametrize(("name", "path", "port"), [("server", "/readyz", 8791), ("sidecar", "/readyz", 8790)])
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_health_checks_pass_on_what_the_service_says(name: str, path: str, port: int, status: int, code: int) -> None:
    words = services()[name]["healthcheck"]["test"]
    assert words[:3] == ["CMD", "python", "-c"]
    assert f"'127.0.0.1', {port}," in words[3]
    with answering({path: status}) as free:
        program = words[3].replace(str(port), str(free))
        run = subprocess.run(
            [sys.executable, "-c", program], env={}, check=False, timeout=30, stderr=subprocess.DEVNULL
        )
    assert run.returncode == code
