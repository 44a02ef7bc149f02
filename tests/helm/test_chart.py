"""What the chart renders, over its values files, with every helm it supports."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.helm.chart import (
    CASES,
    CHART,
    ROOT,
    Helm,
    Manifest,
    RenderError,
    containers,
    environment,
    named,
    of_kind,
    ours,
    pod_spec,
)

pytestmark = pytest.mark.helm

META = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
OLDEST = META["kubeVersion"].removeprefix(">=").partition(".0-0")[0]
NEWEST = kubernetes_validate.latest_version().rpartition(".")[0]
RUNNING = [case for case in CASES if case != "none"]
NOT_IN_THE_SCHEMAS = {"ServiceMonitor"}
SECRET_LIKE = re.compile(r"SECRET|STATE|PASSWORD|TOKEN$|API_KEY|_HEADERS$")


@pytest.mark.parametrize("case", CASES)
def test_lint_has_nothing_to_say(any_helm: Helm, case: str) -> None:
    any_helm.run("lint", "--strict", str(CHART), "--values", str(CHART / "ci" / f"{case}.yaml"))


@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
@pytest.mark.parametrize("case", RUNNING)
def test_every_manifest_is_valid_for_the_oldest_and_the_newest_kubernetes(
    any_helm: Helm, case: str, kubernetes: str
) -> None:
    manifests = any_helm.case(case, "--kube-version", kubernetes)
    assert manifests
    for manifest in manifests:
        if manifest["kind"] not in NOT_IN_THE_SCHEMAS:
            kubernetes_validate.validate(manifest, kubernetes, strict=True)


def test_both_helms_render_the_same(any_helm: Helm, newest_helm: Helm) -> None:
    def by_name(manifests: tuple[Manifest, ...]) -> dict[tuple[str, str], Manifest]:
        return {(one["kind"], one["metadata"]["name"]): one for one in manifests}

    for case in CASES:
        assert by_name(any_helm.case(case)) == by_name(newest_helm.case(case))


def test_a_kubernetes_without_native_sidecars_is_refused(any_helm: Helm) -> None:
    assert OLDEST == "1.29"
    with pytest.raises(RenderError, match="incompatible with Kubernetes"):
        any_helm.template("--kube-version", "1.28.9")


def test_nothing_runs_by_default(any_helm: Helm) -> None:
    assert any_helm.case("none") == ()
    assert any_helm.template() == ()


def test_the_chart_the_image_tag_and_the_package_have_one_version() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert META["version"] == META["appVersion"] == values["image"]["tag"] == package


@pytest.mark.parametrize("case", RUNNING)
def test_every_container_asks_for_nothing_beyond_the_restricted_level(newest_helm: Helm, case: str) -> None:
    manifests = newest_helm.case(case)
    for container in containers(manifests):
        assert container["securityContext"] == {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["resources"]["requests"]["cpu"]
        assert container["resources"]["limits"]["memory"]
    for deployment in of_kind(manifests, "Deployment"):
        spec = pod_spec(deployment)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


@pytest.mark.parametrize("case", RUNNING)
def test_service_links_do_not_add_variables_that_look_like_options(newest_helm: Helm, case: str) -> None:
    for deployment in of_kind(newest_helm.case(case), "Deployment"):
        assert pod_spec(deployment)["enableServiceLinks"] is False


@pytest.mark.parametrize("case", RUNNING)
def test_the_service_account_exists_when_it_is_created_and_carries_no_token(newest_helm: Helm, case: str) -> None:
    manifests = newest_helm.case(case)
    accounts = of_kind(manifests, "ServiceAccount")
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    names = {account["metadata"]["name"] for account in accounts} or {"default"}
    assert {pod_spec(one)["serviceAccountName"] for one in of_kind(manifests, "Deployment")} == names


@pytest.mark.parametrize("case", RUNNING)
def test_selectors_match_exactly_the_pods_they_are_for(newest_helm: Helm, case: str) -> None:
    manifests = newest_helm.case(case)
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in of_kind(manifests, "Deployment")
    }

    def selected(selector: dict[str, str]) -> set[str]:
        return {name for name, labels in pods.items() if selector.items() <= labels.items()}

    for deployment in of_kind(manifests, "Deployment"):
        assert selected(deployment["spec"]["selector"]["matchLabels"]) == {deployment["metadata"]["name"]}
    for service in of_kind(manifests, "Service"):
        assert selected(service["spec"]["selector"]) == {service["metadata"]["name"].removesuffix("-metrics")}
    for budget in of_kind(manifests, "PodDisruptionBudget"):
        assert selected(budget["spec"]["selector"]["matchLabels"]) == {budget["metadata"]["name"]}
    for scaler in of_kind(manifests, "HorizontalPodAutoscaler"):
        target = named(manifests, "Deployment", scaler["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "the scaler owns the count"


@pytest.mark.parametrize("case", RUNNING)
def test_the_recommended_labels_stand_on_everything_and_pods_survive_a_new_chart_version(
    newest_helm: Helm, case: str
) -> None:
    for manifest in newest_helm.case(case):
        recommended = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "version", "part-of")}
        assert recommended | {"app.kubernetes.io/managed-by", "helm.sh/chart"} <= set(manifest["metadata"]["labels"])
        if manifest["kind"] == "Deployment":
            assert "helm.sh/chart" not in manifest["spec"]["template"]["metadata"]["labels"]
            selector = manifest["spec"]["selector"]["matchLabels"]
            assert set(selector) == {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component")}


@pytest.mark.parametrize("case", RUNNING)
def test_every_target_port_and_probe_port_is_a_port_of_the_container(newest_helm: Helm, case: str) -> None:
    manifests = newest_helm.case(case)
    for container in ours(manifests):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        listening = {
            value.rpartition(":")[2]
            for name, value in environment(container).items()
            if name in {"DELTAWIRE_LISTEN", "DELTAWIRE_ADMIN"}
        }
        assert {str(port) for port in ports.values()} <= listening
        assert {
            container[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
        } <= set(ports)
    for service in of_kind(manifests, "Service"):
        target = named(manifests, "Deployment", service["metadata"]["name"].removesuffix("-metrics"))
        (container,) = pod_spec(target)["containers"]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {
            port["name"] for port in container["ports"]
        }


@pytest.mark.parametrize("case", RUNNING)
def test_readiness_and_liveness_ask_different_questions(newest_helm: Helm, case: str) -> None:
    for container in ours(newest_helm.case(case)):
        paths = {
            name: container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")
        }
        assert paths == {"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
        assert container["startupProbe"]["periodSeconds"] == 1, "the pod's own containers wait for it"
        patience = container["livenessProbe"]
        assert patience["periodSeconds"] * patience["failureThreshold"] >= 30, "a busy process is not killed"


@pytest.mark.parametrize("case", RUNNING)
def test_a_pod_is_not_killed_before_its_drain_is_over(newest_helm: Helm, case: str) -> None:
    for deployment in of_kind(newest_helm.case(case), "Deployment"):
        spec = pod_spec(deployment)
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            if drain := environment(container).get("DELTAWIRE_DRAIN"):
                (wait,) = re.findall(r"sleep\((\d+)\)", str(container.get("lifecycle", "sleep(0)")))
                assert spec["terminationGracePeriodSeconds"] >= int(wait) + int(drain.removesuffix("s")) + 5


def test_pods_behind_a_service_leave_the_endpoints_before_they_are_told_to_end(newest_helm: Helm) -> None:
    waits = {
        one["metadata"]["name"]: [container.get("lifecycle") for container in ours((one,))]
        for one in of_kind(newest_helm.case("mesh"), "Deployment")
    }
    hook = {"preStop": {"exec": {"command": ["python", "-c", "import time; time.sleep(5)"]}}}
    assert waits == {"rel-deltawire-gateway": [hook], "rel-deltawire-server": [hook], "rel-deltawire-example": [None]}
    (alone,) = ours(newest_helm.case("gateway"))
    assert "lifecycle" not in alone


def test_disruptions_take_one_pod_at_a_time_and_never_block_a_node(newest_helm: Helm) -> None:
    budgets = of_kind(newest_helm.case("mesh"), "PodDisruptionBudget")
    assert {one["metadata"]["name"] for one in budgets} == {"rel-deltawire-gateway", "rel-deltawire-server"}
    for budget in budgets:
        assert budget["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget["spec"]
    assert not of_kind(newest_helm.case("server"), "PodDisruptionBudget")


@pytest.mark.parametrize("case", RUNNING)
def test_secrets_come_from_secrets_only(newest_helm: Helm, case: str) -> None:
    manifests = newest_helm.case(case)
    assert not of_kind(manifests, "Secret"), "the chart makes none"
    for container in containers(manifests):
        for name, value in environment(container).items():
            if SECRET_LIKE.search(name):
                assert set(value) == {"secretKeyRef"}
            elif isinstance(value, str):
                assert "@" not in value
    for config in of_kind(manifests, "ConfigMap"):
        assert set(config["data"]) == {"client.py"}


def test_redis_and_the_key_of_the_digests_reach_the_gateway(newest_helm: Helm) -> None:
    (gateway,) = ours(newest_helm.case("gateway-redis"))
    found = environment(gateway)
    assert found["DELTAWIRE_STATE"] == {"secretKeyRef": {"name": "deltawire-redis", "key": "redis-url"}}
    assert found["DELTAWIRE_SECRET"] == {"secretKeyRef": {"name": "deltawire-secret", "key": "secret"}}
    assert "DELTAWIRE_UPSTREAM" not in found, "the command's own default"


def test_redis_without_a_shared_key_is_refused(any_helm: Helm) -> None:
    with pytest.raises(RenderError, match=r"needs proxy\.secret\.existingSecret"):
        any_helm.template("--set", "gateway.enabled=true,proxy.redis.existingSecret=redis")


def test_options_become_variables_and_big_numbers_keep_their_digits(newest_helm: Helm) -> None:
    (gateway,) = ours(newest_helm.case("gateway"))
    found = environment(gateway)
    assert found["DELTAWIRE_MAX_LINKS"] == "1000000"
    assert found["DELTAWIRE_LINK_MAX_AGE"] == "19m"
    assert found["DELTAWIRE_ONE_SHOT"] == "http"
    assert found["DELTAWIRE_UPSTREAM"] == "https://llm.example/v1"
    assert found["DELTAWIRE_LISTEN"] == "[::]:9787"
    assert gateway["image"] == f"registry.example:5000/team/deltawire@sha256:{'1' * 64}"


def test_the_servers_own_options_become_variables(newest_helm: Helm) -> None:
    found = {tuple(one["args"]): environment(one) for one in ours(newest_helm.case("example"))}
    assert found["upstream",] == {
        "DELTAWIRE_LISTEN": "0.0.0.0:8788",
        "DELTAWIRE_ADMIN": "0.0.0.0:8791",
        "DELTAWIRE_ENGINE": "sim",
        "DELTAWIRE_DRAIN": "60s",
        "DELTAWIRE_TOKENS_PER_SECOND": "200",
        "DELTAWIRE_TOOL_TURNS": "3",
    }
    assert found["proxy",]["DELTAWIRE_UPSTREAM"] == "http://rel-deltawire-server:8788/v1"


def test_the_key_that_seals_reasoning_is_shared_by_the_servers_replicas(newest_helm: Helm) -> None:
    (server,) = ours(newest_helm.case("server"))
    assert environment(server)["DELTAWIRE_STORE"] == {"secretKeyRef": {"name": "deltawire-store", "key": "redis-url"}}
    assert environment(server)["DELTAWIRE_SECRET"] == {"secretKeyRef": {"name": "deltawire-server", "key": "secret"}}


@pytest.mark.parametrize(("case", "name", "port"), [("gateway-redis", "gateway", 8790), ("server", "server", 9791)])
def test_the_service_of_clients_never_carries_the_admin_port(
    newest_helm: Helm, case: str, name: str, port: int
) -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(newest_helm.case(case), "Service")}
    assert [one["name"] for one in services[f"rel-deltawire-{name}"]["ports"]] == ["http"]
    assert [one["port"] for one in services[f"rel-deltawire-{name}-metrics"]["ports"]] == [port]


@pytest.mark.parametrize(("case", "name"), [("gateway-redis", "gateway"), ("server", "server")])
def test_the_service_monitor_selects_the_admin_service_alone(newest_helm: Helm, case: str, name: str) -> None:
    manifests = newest_helm.case(case)
    (monitor,) = of_kind(manifests, "ServiceMonitor")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(monitor["spec"]) == {"selector", "namespaceSelector", "endpoints"}
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["agents"]}
    assert monitor["metadata"]["labels"].get("release") == ("prometheus" if name == "gateway" else None)
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    selected = [one for one in of_kind(manifests, "Service") if wanted <= one["metadata"]["labels"].items()]
    assert [one["metadata"]["name"] for one in selected] == [f"rel-deltawire-{name}-metrics"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint == {"port": "metrics", "path": "/metrics", "interval": "30s"}
    assert endpoint["port"] in {port["name"] for port in selected[0]["spec"]["ports"]}


def test_no_service_monitor_unless_asked_for(newest_helm: Helm) -> None:
    for case in set(CASES) - {"gateway-redis", "server"}:
        assert not of_kind(newest_helm.case(case), "ServiceMonitor")


def test_annotations_and_placement_reach_the_objects_they_are_for(newest_helm: Helm) -> None:
    def annotations(case: str, kind: str, name: str) -> dict[str, Any]:
        found = named(newest_helm.case(case), kind, name)
        meta = found["spec"]["template"]["metadata"] if kind == "Deployment" else found["metadata"]
        result: dict[str, Any] = meta["annotations"]
        return result

    assert annotations("mesh", "Deployment", "rel-deltawire-server")["config.linkerd.io/skip-inbound-ports"] == "8788"
    assert annotations("mesh", "ServiceAccount", "rel-deltawire") == {"example.com/role": "turns"}
    assert annotations("gateway", "Service", "turns-gateway") == {"example.com/internal": "true"}
    spec = pod_spec(named(newest_helm.case("gateway-redis"), "Deployment", "rel-deltawire-gateway"))
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert spec["tolerations"][0]["key"] == "dedicated"
    assert "podAntiAffinity" in spec["affinity"]
    assert {mount["name"] for mount in spec["containers"][0]["volumeMounts"]} == {
        one["name"] for one in spec["volumes"]
    }


@pytest.mark.parametrize("release", ["deltawire", "my-deltawire", "r" * 53])
def test_names_fit_whatever_the_release_is_called(newest_helm: Helm, release: str) -> None:
    for manifest in newest_helm.template("--values", str(CHART / "ci" / "gateway-redis.yaml"), release=release):
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", manifest["metadata"]["name"])
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())


def test_the_notes_warn_when_replicas_share_nothing(newest_helm: Helm) -> None:
    def notes(*args: str) -> str:
        return newest_helm.run("install", "rel", str(CHART), "--dry-run=client", "--namespace", "agents", *args)

    assert "Several replicas without proxy.redis" in notes("--set", "gateway.enabled=true")
    assert "Several replicas" not in notes("--set", "gateway.enabled=true,gateway.replicas=1")
    assert 'include "deltawire.sidecar"' in notes()
