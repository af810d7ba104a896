"""The web configuration file: TLS, headers and users, in the form that Prometheus' own exporters share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulake.collect.live.passwords import BCRYPT
from gpulake.core.errors import ConfigError, choice_hint

VERSIONS = ("TLS10", "TLS11", "TLS12", "TLS13")
CLIENT_AUTH = ("NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
# Those that ask for a certificate and believe any: OpenSSL's Python face cannot, and nobody should.
UNVERIFIED_CLIENT_AUTH = ("RequestClientCert", "RequireClientCert", "RequireAnyClientCert")
HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
KEYS: dict[str, tuple[str, ...]] = {
    "the file": ("tls_server_config", "http_server_config", "basic_auth_users", "auth_excluded_paths"),
    "tls_server_config": (
        "cert",
        "key",
        "client_ca",
        "cert_file",
        "key_file",
        "client_ca_file",
        "client_auth_type",
        "client_allowed_sans",
        "min_version",
        "max_version",
        "cipher_suites",
        "prefer_server_cipher_suites",
        "curve_preferences",
    ),
    "http_server_config": ("http2", "headers"),
    "headers": HEADERS,
}


@dataclass(frozen=True)
class Tls:
    """Certificates are paths, or texts where the file has them in itself."""

    cert: Path | str
    key: Path | str
    client_ca: Path | str | None = None
    client_auth_type: str = "NoClientCert"
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefers_server_ciphers: bool = True
    curves: tuple[str, ...] = ()

    def files(self) -> tuple[Path, ...]:
        return tuple(part for part in (self.cert, self.key, self.client_ca) if isinstance(part, Path))


@dataclass(frozen=True)
class WebConfig:
    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    open_paths: tuple[str, ...] = ()  # that need no password
    notes: tuple[str, ...] = ()  # what is in the file and has no effect here


def read_web_config(path: Path) -> WebConfig:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ConfigError(f"{path} is YAML, and pyyaml is not installed", "pip install pyyaml") from error
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "give a file that the collector may read") from error
    except yaml.YAMLError as error:
        # Its text may quote a line, and a line may hold a key or a hash.
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path} is not YAML{where}", "mind the indentation, and quote what has a colon") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deep", "write it as the manual shows") from None
    return _parse(content, path)


def _parse(content: Any, path: Path) -> WebConfig:
    top = _section(content, "the file", path)
    http = _section(top.get("http_server_config"), "http_server_config", path)
    notes = ("http2 has no effect: pages are served over HTTP/1.1",) if http.get("http2") is True else ()
    return WebConfig(
        tls=_tls(_section(top.get("tls_server_config"), "tls_server_config", path), path),
        headers=_headers(http, path),
        users=_users(top.get("basic_auth_users"), path),
        open_paths=_texts(top, "auth_excluded_paths", path),
        notes=notes,
    )


def _section(content: Any, name: str, path: Path) -> dict[str, Any]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{name} in {path} is no mapping", "write 'key: value', one a line")
    for key in content:
        if key not in KEYS[name]:
            raise ConfigError(f"{path}: no setting {key!r} in {name}", choice_hint(str(key), KEYS[name]))
    return content


def _tls(section: dict[str, Any], path: Path) -> Tls | None:
    if not section:
        return None
    cert, key = _file_or_text(section, "cert", path), _file_or_text(section, "key", path)
    if cert is None or key is None:
        missing = "cert_file" if cert is None else "key_file"
        raise ConfigError(f"tls_server_config in {path} has no {missing}", "give both cert_file and key_file")
    tls = Tls(
        cert=cert,
        key=key,
        client_ca=_file_or_text(section, "client_ca", path),
        client_auth_type=_text(section, "client_auth_type", path) or "NoClientCert",
        client_allowed_sans=_texts(section, "client_allowed_sans", path),
        min_version=_choice(section, "min_version", "TLS12", VERSIONS, path),
        max_version=_choice(section, "max_version", "TLS13", VERSIONS, path),
        cipher_suites=_texts(section, "cipher_suites", path),
        prefers_server_ciphers=_flag(section, "prefer_server_cipher_suites", path, default=True),
        curves=_texts(section, "curve_preferences", path),
    )
    _check_clients(tls, path)
    return tls


def _check_clients(tls: Tls, path: Path) -> None:
    if tls.client_auth_type in UNVERIFIED_CLIENT_AUTH:
        raise ConfigError(
            f"{path}: {tls.client_auth_type} would believe any certificate", "use RequireAndVerifyClientCert"
        )
    if tls.client_auth_type not in CLIENT_AUTH:
        raise ConfigError(
            f"{path}: no client_auth_type {tls.client_auth_type!r}", choice_hint(tls.client_auth_type, CLIENT_AUTH)
        )
    verifies = tls.client_auth_type != "NoClientCert"
    if verifies and tls.client_ca is None:
        raise ConfigError(f"{path}: {tls.client_auth_type} has nothing to verify with", "give client_ca_file")
    if not verifies and (tls.client_ca is not None or tls.client_allowed_sans):
        raise ConfigError(
            f"{path}: clients are described, and none is asked for a certificate",
            "set client_auth_type to RequireAndVerifyClientCert",
        )


def _file_or_text(section: dict[str, Any], name: str, path: Path) -> Path | str | None:
    """A relative path is relative to the file that names it."""
    inline, file = _text(section, name, path), _text(section, f"{name}_file", path)
    if inline and file:
        raise ConfigError(f"{path} has both {name} and {name}_file", "keep one of them")
    return inline or (path.parent / file if file else None)


def _headers(http: dict[str, Any], path: Path) -> dict[str, str]:
    section = _section(http.get("headers"), "headers", path)
    found = {name: _text(section, name, path) for name in section}
    for name, value in found.items():
        if not value.isprintable() or not value.isascii():
            raise ConfigError(f"{path}: the header {name} has characters that headers cannot have", "use plain ASCII")
    return {name: value for name, value in found.items() if value}


def _users(section: Any, path: Path) -> dict[str, str]:
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise ConfigError(f"basic_auth_users in {path} is no mapping", "write 'user: hash', one a line")
    for user, known in section.items():
        if not isinstance(user, str) or ":" in user or not user:
            raise ConfigError(f"{path}: {user!r} is no user name", "use a text without a colon")
        if not isinstance(known, str) or not BCRYPT.fullmatch(known):
            # What stands there may be the password itself: it is not repeated.
            raise ConfigError(
                f"{path}: what user {user!r} has is no bcrypt hash", "make one with: htpasswd -nBC 10 '' | tr -d ':\\n'"
            )
    return dict(section)


def _text(section: dict[str, Any], name: str, path: Path) -> str:
    value = section.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {name} is no text", "put it in quotes")
    return value


def _texts(section: dict[str, Any], name: str, path: Path) -> tuple[str, ...]:
    value = section.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise ConfigError(f"{path}: {name} is no list of texts", "write '- text', one a line")
    return tuple(value)


def _flag(section: dict[str, Any], name: str, path: Path, *, default: bool) -> bool:
    value = section.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{path}: {name} is {value!r}", "use true or false")
    return value


def _choice(section: dict[str, Any], name: str, default: str, known: tuple[str, ...], path: Path) -> str:
    value = _text(section, name, path) or default
    if value not in known:
        raise ConfigError(f"{path}: {name} is {value!r}", choice_hint(value, known))
    return value
