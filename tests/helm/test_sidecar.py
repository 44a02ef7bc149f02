"""The named template in a chart of somebody else's."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import kubernetes_validate
import pytest

from tests.helm.chart import CHART, ROOT, Helm, Manifest, environment, named, of_kind, ours, pod_spec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.helm


@pytest.fixture
def app(any_helm: Helm, tmp_path: Path) -> Path:
    """The other chart beside a copy of ours, with the dependency brought in as its user would."""
    chart = tmp_path / "app"
    shutil.copytree(ROOT / "tests" / "helm" / "data" / "app", chart)
    shutil.copytree(CHART, tmp_path / "deltawire")
    any_helm.run("dependency", "update", "--skip-refresh", str(chart))
    return chart


def sidecar(workload: Manifest) -> Manifest:
    found: list[Manifest] = [one for one in pod_spec(workload)["initContainers"] if one.get("args") == ["proxy"]]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_the_sidecar_is_native_in_deployments_and_jobs(any_helm: Helm, app: Path, kind: str) -> None:
    (workload,) = of_kind(any_helm.template(chart=app), kind)
    found = sidecar(workload)
    assert found["restartPolicy"] == "Always", "otherwise the pod waits for it to end, or the Job never ends"
    assert found["startupProbe"]["httpGet"] == {"path": "/readyz", "port": "deltawire-admin"}
    assert found["image"] == "registry.example/deltawire:0.1.0", "not the version of the other chart"
    for version in ("1.29", "1.37"):
        kubernetes_validate.validate(workload, version, strict=True)


def test_clients_are_served_inside_the_pod_only_and_the_kubelet_reaches_the_probes(any_helm: Helm, app: Path) -> None:
    found = sidecar(named(any_helm.template(chart=app), "Deployment", "app"))
    assert environment(found) == {
        "DELTAWIRE_LISTEN": "127.0.0.1:8787",
        "DELTAWIRE_ADMIN": "0.0.0.0:8790",
        "DELTAWIRE_UPSTREAM": "https://llm.example/v1",
        "DELTAWIRE_DRAIN": "30s",
        "DELTAWIRE_MAX_LINKS": "8",
    }
    assert [port["containerPort"] for port in found["ports"]] == [8790]


def test_the_container_beside_it_is_pointed_at_it(any_helm: Helm, app: Path) -> None:
    spec = pod_spec(named(any_helm.template(chart=app), "Deployment", "app"))
    assert environment(spec["containers"][0]) == {"OPENAI_BASE_URL": "http://127.0.0.1:8787/v1"}
    assert spec["terminationGracePeriodSeconds"] == 45


def test_init_containers_that_stand_before_it_run_without_it(any_helm: Helm, app: Path) -> None:
    spec = pod_spec(named(any_helm.template(chart=app), "Deployment", "app"))
    assert [one["name"] for one in spec["initContainers"]] == ["migrate", "deltawire"]


def test_nothing_else_of_our_chart_comes_along(any_helm: Helm, app: Path) -> None:
    assert {(one["kind"], one["metadata"]["name"]) for one in any_helm.template(chart=app)} == {
        ("Deployment", "app"),
        ("Job", "evaluation"),
    }


def test_the_server_of_the_same_release_is_found_by_its_name(any_helm: Helm, app: Path) -> None:
    manifests = any_helm.template("--set", "deltawire.server.enabled=true,deltawire.proxy.upstream=", chart=app)
    service = named(manifests, "Service", "rel-deltawire-server")
    upstreams = {environment(one).get("DELTAWIRE_UPSTREAM") for one in ours(manifests) if one["args"] == ["proxy"]}
    assert upstreams == {f"http://rel-deltawire-server:{service['spec']['ports'][0]['port']}/v1"}


def test_the_schema_speaks_for_the_other_charts_values_too(any_helm: Helm, app: Path) -> None:
    with pytest.raises(Exception, match="values don't meet the specifications"):
        any_helm.template("--set", "deltawire.proxy.upstream=ftp://x", chart=app)


def test_the_example_pod_is_the_same_sidecar(any_helm: Helm) -> None:
    manifests = any_helm.case("example")
    spec = pod_spec(named(manifests, "Deployment", "rel-deltawire-example"))
    (found,) = spec["initContainers"]
    assert found["restartPolicy"] == "Always"
    (client,) = spec["containers"]
    assert environment(client)["OPENAI_BASE_URL"] == "http://127.0.0.1:8787/v1"
    script = named(manifests, "ConfigMap", "rel-deltawire-example")["data"]["client.py"]
    assert script.strip() == (CHART / "files" / "client.py").read_text(encoding="utf-8").strip()
