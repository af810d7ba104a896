"""The page over TLS: certificates of the server and of its clients."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from gpulake.collect.live.page import Server
from live_server import certificates, send, start

__all__ = ["certificates", "start"]  # fixtures


def test_tls_is_spoken_and_new_certificates_are_taken_up(
    start: Callable[..., Server], tmp_path: Path, certificates: Callable[..., Any]
) -> None:
    certificates(tmp_path, "server")
    config = tmp_path / "web.yml"
    config.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key}\n")
    server = start(None, "127.0.0.1:0", config)

    def serial() -> Any:
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        connection = HTTPSConnection("localhost", server.address[1], context=context, timeout=60)
        try:
            connection.connect()
            shown = connection.sock.getpeercert()["serialNumber"]  # type: ignore[index]
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            return shown
        finally:
            connection.close()

    first = serial()
    certificates(tmp_path, "server")

    assert serial() != first


def test_tls_refuses_plain_text_and_old_versions(
    start: Callable[..., Server], tmp_path: Path, certificates: Callable[..., Any]
) -> None:
    certificates(tmp_path, "server")
    config = tmp_path / "web.yml"
    config.write_text("tls_server_config: {cert_file: server.pem, key_file: server.key, min_version: TLS13}\n")
    server = start(None, "127.0.0.1:0", config)
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    assert b"gpulake" not in send(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    with (
        socket.create_connection(server.address, timeout=60) as old,
        pytest.raises(ssl.SSLError),
        context.wrap_socket(old, server_hostname="localhost"),
    ):
        pass


@pytest.mark.parametrize(
    ("client", "sans", "status"), [("scraper", "[scraper]", 200), ("scraper", "[other]", 0), ("", "[scraper]", 0)]
)
def test_clients_show_a_certificate_with_a_name_that_is_let_in(
    start: Callable[..., Server],
    tmp_path: Path,
    certificates: Callable[..., Any],
    client: str,
    sans: str,
    status: int,
) -> None:
    certificates(tmp_path, "server")
    config = tmp_path / "web.yml"
    config.write_text(
        "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem, "
        f"client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: {sans}}}\n"
    )
    server = start(None, "127.0.0.1:0", config)
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    if client:
        certificates(tmp_path, client)
        context.load_cert_chain(tmp_path / f"{client}.pem", tmp_path / f"{client}.key")
    connection = HTTPSConnection("localhost", server.address[1], context=context, timeout=60)
    try:
        connection.request("GET", "/healthz")
        found = connection.getresponse().status
    except OSError:
        found = 0
    finally:
        connection.close()

    assert found == status
