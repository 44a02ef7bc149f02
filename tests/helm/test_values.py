"""values.schema.json says no before anything is installed."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.helm.chart import CHART, Helm, RenderError

pytestmark = pytest.mark.helm

NONSENSE = {
    "a misspelt switch": "gateway.enable=true",
    "a switch that is a word": "gateway.enabled=please",
    "no replicas": "gateway.replicas=0",
    "half a replica": "gateway.replicas=1.5",
    "a port that a non-root user cannot bind": "gateway.listen.port=80",
    "a port that does not exist": "sidecar.admin.port=70000",
    "a host name to listen on": "sidecar.listen.host=localhost",
    "an upstream without scheme": "proxy.upstream=api.example/v1",
    "a WebSocket upstream": "proxy.upstream=wss://api.example/v1",
    "credentials in the upstream": "proxy.upstream=https://user:pass@api.example/v1",
    "a query in the upstream": "proxy.upstream=https://api.example/v1?key=1",
    "an option that the command does not have": "proxy.options.turbo=true",
    "an option named like its variable": "proxy.options.MAX_LINKS=3",
    "an option that has its own value": "proxy.options.listen=0.0.0.0:1",
    "an unknown transport": "proxy.options.transport=pigeon",
    "an age without unit": "proxy.options.link-max-age=55",
    "a size with an unknown unit": "proxy.options.max-body=128MB",
    "no time to drain": "proxy.drainSeconds=0",
    "no margin after the drain": "graceMarginSeconds=0",
    "a Redis URL where a Secret's name belongs": "proxy.redis.existingSecret=redis://redis:6379",
    "a Redis URL as a value": "proxy.redis.url=redis://redis:6379",
    "a secret as a value": "proxy.secret.value=hunter2",
    "a plain secret among the variables": "proxy.extraEnv[0].name=DELTAWIRE_SECRET,proxy.extraEnv[0].value=hunter2",
    "a plain key among the server's variables": "server.extraEnv[0].name=ENGINE_API_KEY,server.extraEnv[0].value=sk-1",
    "a variable that the chart sets itself": "proxy.extraEnv[0].name=DELTAWIRE_LISTEN,proxy.extraEnv[0].value=x",
    "a variable without a value": "proxy.extraEnv[0].name=SSL_CERT_FILE",
    "an unknown engine": "server.engine=magic",
    "a speed below nothing": "server.options.tokens-per-second=-1",
    "a digest that is none": "image.digest=latest",
    "a tag inside the repository": "image.repository=team/deltawire:1",
    "a label that selectors own": r"gateway.podLabels.app\.kubernetes\.io/name=x",
    "everything may be evicted": "gateway.pdb.maxUnavailable=100%",
    "nothing may ever be evicted": "gateway.pdb.maxUnavailable=0",
    "a probe without period": "probes.startup.periodSeconds=0",
    "more than all of the processor": "gateway.autoscaling.cpuUtilization=101",
    "a type of Service that does not exist": "gateway.service.type=Public",
}


@pytest.mark.parametrize("setting", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused(any_helm: Helm, setting: str) -> None:
    with pytest.raises(RenderError, match=r"(?s)values don't meet the specifications of the schema"):
        any_helm.template("--set", setting)


def test_the_schema_knows_every_default_and_describes_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(schema["properties"]) == set(values) | {"global", "enabled"}
    for name, part in schema["properties"].items():
        if name in values and "properties" in part:
            assert set(part["properties"]) == set(values[name]), name


def test_a_secret_may_be_named_in_a_variable_when_it_comes_from_a_secret(any_helm: Helm) -> None:
    source = "proxy.extraEnv[0].valueFrom.secretKeyRef"
    any_helm.template("--set", f"proxy.extraEnv[0].name=SOME_API_KEY,{source}.name=a,{source}.key=b")
