"""A certificate for the measurements' own addresses, trusted by nobody else, and gone with its folder."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CERTIFICATE = "certificate.pem"
"""The file that a client has to trust."""
_KEY = "key.pem"
_DAYS = 2


def make(folder: Path, addresses: Sequence[str]) -> Path:
    """A key and a certificate for these addresses; the latter's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "deltawire bench")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / _KEY).touch(mode=0o600)
    (folder / _KEY).write_bytes(encoded)
    trusted = folder / CERTIFICATE
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return trusted


def for_server(folder: Path) -> ssl.SSLContext:
    """What a server shows."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / CERTIFICATE, folder / _KEY)
    return context


def for_client(trusted: Path) -> ssl.SSLContext:
    """What a client trusts: this alone."""
    return ssl.create_default_context(cafile=str(trusted))
