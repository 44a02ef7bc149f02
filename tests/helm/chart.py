"""Running helm on the chart, and finding one's way in what it renders."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "deltawire"
CASES = sorted(path.stem for path in (CHART / "ci").glob("*.yaml"))
Manifest = dict[str, Any]


class RenderError(Exception):
    """Helm refused; the message is what it said."""


@dataclass(frozen=True)
class Helm:
    """One helm binary."""

    path: Path

    def run(self, *args: str, cwd: Path | None = None) -> str:
        """What helm prints. Nothing of the user's own configuration is read. Raises RenderError."""
        home = self.path.parent / "home"
        env = os.environ | {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        env["KUBECONFIG"] = os.devnull
        run = subprocess.run(
            [str(self.path), *args], capture_output=True, text=True, check=False, timeout=60, cwd=cwd, env=env
        )
        if run.returncode:
            raise RenderError(run.stdout + run.stderr)
        return run.stdout

    @functools.cache  # noqa: B019 (a handful of binaries, for the length of a test run)
    def template(self, *args: str, chart: Path = CHART, release: str = "rel") -> tuple[Manifest, ...]:
        """The rendered manifests."""
        text = self.run("template", release, str(chart), "--namespace", "agents", *args)
        return tuple(document for document in yaml.safe_load_all(text) if document)

    def case(self, name: str, *args: str) -> tuple[Manifest, ...]:
        """The manifests for one values file in the chart's ci folder."""
        return self.template("--values", str(CHART / "ci" / f"{name}.yaml"), *args)


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def named(manifests: tuple[Manifest, ...], kind: str, name: str) -> Manifest:
    (found,) = (manifest for manifest in of_kind(manifests, kind) if manifest["metadata"]["name"] == name)
    return found


def pod_spec(workload: Manifest) -> Manifest:
    spec: Manifest = workload["spec"]["template"]["spec"]
    return spec


def containers(manifests: tuple[Manifest, ...]) -> Iterator[Manifest]:
    """Every container and init container of every workload."""
    for manifest in manifests:
        if manifest["kind"] in {"Deployment", "Job"}:
            spec = pod_spec(manifest)
            yield from spec["containers"]
            yield from spec.get("initContainers", [])


def ours(manifests: tuple[Manifest, ...]) -> Iterator[Manifest]:
    """The containers that run `deltawire proxy` or `deltawire upstream`."""
    return (one for one in containers(manifests) if one.get("args") in (["proxy"], ["upstream"]))


def environment(container: Manifest) -> dict[str, Any]:
    """Name to value, or to the `valueFrom` mapping."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", [])}
