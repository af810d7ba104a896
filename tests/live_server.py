"""A page that is served to a test, those who ask for it, and certificates."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpulake.collect.live.page import Server, serve
from gpulake.collect.live.state import State
from live_rows import state

# Of the password "secret", at the least cost.
SECRET = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def started(of: State | None = None, listen: str = "127.0.0.1:0", *args: Any, **options: Any) -> Server:
        servers.append(serve(of or state(), listen, *args, **options))
        return servers[-1]

    yield started
    for server in servers:
        server.close()


def ask(server: Server, path: str = "/metrics", method: str = "GET", **headers: str) -> Answer:
    connection = HTTPConnection(*server.address, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def send(server: Server, request: bytes) -> bytes:
    """All that comes back, up to the end or a reset."""
    answer = b""
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(request)
        with suppress(ConnectionError):
            while some := connection.recv(1 << 16):
                answer += some
    return answer


@pytest.fixture(scope="session")
def certificates() -> Callable[..., None]:
    """Writes NAME.pem and NAME.key, by an authority that is made once a folder."""
    authorities: dict[Path, tuple[Any, Any]] = {}

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def builder(subject: str, issuer: str, key: Any) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def save(folder: Path, name: str, certificate: Any, key: Any) -> None:
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    def made(folder: Path, name: str) -> None:
        if folder not in authorities:
            key = ec.generate_private_key(ec.SECP256R1())
            basic = x509.BasicConstraints(ca=True, path_length=None)
            found = builder("ca", "ca", key).add_extension(basic, critical=True).sign(key, hashes.SHA256())
            authorities[folder] = (found, key)
            save(folder, "ca", found, key)
        authority = authorities[folder][1]
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName("localhost" if name == "server" else name)])
        save(
            folder,
            name,
            builder(name, "ca", key).add_extension(names, critical=False).sign(authority, hashes.SHA256()),
            key,
        )

    return made
