"""An SSL context from the web configuration, whose words are Go's."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpulake.collect.live.web_config import Tls
from gpulake.core.errors import ConfigError, choice_hint

VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}
# Go's list may name these, and TLS 1.3 has them whatever it says.
ALWAYS_ON = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


def server_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.minimum_version = VERSIONS[tls.min_version]
        context.maximum_version = VERSIONS[tls.max_version]
        if names := [_known(name, CIPHERS) for name in tls.cipher_suites if name not in ALWAYS_ON]:
            context.set_ciphers(":".join(names))
        if tls.curves:
            # Python can set one: the one that is liked best.
            context.set_ecdh_curve(_known(tls.curves[0], CURVES))
        if tls.prefers_server_ciphers:
            context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
        else:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        with _file(tls.cert) as cert, _file(tls.key) as key:
            context.load_cert_chain(cert, key, password=_no_password)
        _ask_for_clients(context, tls)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"TLS cannot be set up: {error}", "check the files and words of tls_server_config") from error
    return context


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and a daemon would wait for ever.
    raise ValueError("the key is protected by a password")


def _ask_for_clients(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.client_ca is None:
        return
    if isinstance(tls.client_ca, Path):
        context.load_verify_locations(cafile=tls.client_ca)
    else:
        context.load_verify_locations(cadata=tls.client_ca)
    is_required = tls.client_auth_type == "RequireAndVerifyClientCert"
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL


def is_allowed(connection: ssl.SSLSocket, tls: Tls) -> bool:
    """Whether the client's certificate bears one of the names that are asked for."""
    if not tls.client_allowed_sans:
        return True
    found = connection.getpeercert() or {}
    names = [name for _, name in found.get("subjectAltName", ())]  # type: ignore[misc]
    return any(name in tls.client_allowed_sans for name in names)


def _known(name: str, names: dict[str, str]) -> str:
    if name not in names:
        raise ConfigError(f"tls_server_config knows no {name!r}", choice_hint(name, names))
    return names[name]


@contextmanager
def _file(part: Path | str) -> Iterator[str]:
    """OpenSSL reads certificates from files; a text becomes one that never touches a disk."""
    if isinstance(part, Path):
        yield str(part)
        return
    descriptor = os.memfd_create("gpulake", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, part.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
