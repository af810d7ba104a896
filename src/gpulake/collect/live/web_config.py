"""The web configuration file of Prometheus' exporters (TLS, headers, users) and the SSL context that it describes."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpulake.core.errors import ConfigError, choice_hint
from gpulake.core.packaged import packaged_toml

Kind = TypeVar("Kind", str, list[str], bool)
BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")
WORDS = packaged_toml("gpulake.collect.live", "web_config.toml")
# What a setting of another type than its default is called, and the hint.
WRONG: dict[type, tuple[str, str]] = {
    str: ("no text", "put it in quotes"),
    list: ("no list of texts", "write '- text', one a line"),
    bool: ("", "use true or false"),
}


@dataclass(frozen=True)
class Tls:
    """Certificates are paths, or texts if they are inline."""

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
    open_paths: tuple[str, ...] = ()  # without a password
    notes: tuple[str, ...] = ()  # settings without effect


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
        # The message of the parser may quote a key or a hash.
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
        open_paths=tuple(_value(top, "auth_excluded_paths", path, [])),
        notes=notes,
    )


def _section(content: Any, name: str, path: Path) -> dict[str, Any]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{name} in {path} is no mapping", "write 'key: value', one a line")
    for key in content:
        if key not in WORDS["keys"][name]:
            raise ConfigError(f"{path}: no setting {key!r} in {name}", choice_hint(str(key), WORDS["keys"][name]))
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
        client_auth_type=_value(section, "client_auth_type", path, "") or "NoClientCert",
        client_allowed_sans=tuple(_value(section, "client_allowed_sans", path, [])),
        min_version=_choice(section, "min_version", "TLS12", WORDS["versions"], path),
        max_version=_choice(section, "max_version", "TLS13", WORDS["versions"], path),
        cipher_suites=tuple(_value(section, "cipher_suites", path, [])),
        prefers_server_ciphers=_value(section, "prefer_server_cipher_suites", path, True),
        curves=tuple(_value(section, "curve_preferences", path, [])),
    )
    _check_clients(tls, path)
    return tls


def _check_clients(tls: Tls, path: Path) -> None:
    if tls.client_auth_type in WORDS["unverified_client_auth"]:
        raise ConfigError(
            f"{path}: {tls.client_auth_type} would believe any certificate", "use RequireAndVerifyClientCert"
        )
    if tls.client_auth_type not in WORDS["client_auth"]:
        raise ConfigError(
            f"{path}: no client_auth_type {tls.client_auth_type!r}",
            choice_hint(tls.client_auth_type, WORDS["client_auth"]),
        )
    verifies = tls.client_auth_type != "NoClientCert"
    if verifies and tls.client_ca is None:
        raise ConfigError(f"{path}: {tls.client_auth_type} has nothing to verify with", "give client_ca_file")
    if not verifies and (tls.client_ca is not None or tls.client_allowed_sans):
        raise ConfigError(
            f"{path}: settings for client certificates have no effect without client_auth_type",
            "set client_auth_type to RequireAndVerifyClientCert",
        )


def _file_or_text(section: dict[str, Any], name: str, path: Path) -> Path | str | None:
    """A relative path is relative to the file that names it."""
    inline, file = _value(section, name, path, ""), _value(section, f"{name}_file", path, "")
    if inline and file:
        raise ConfigError(f"{path} has both {name} and {name}_file", "keep one of them")
    return inline or (path.parent / file if file else None)


def _headers(http: dict[str, Any], path: Path) -> dict[str, str]:
    section = _section(http.get("headers"), "headers", path)
    found = {name: _value(section, name, path, "") for name in section}
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
            # The value may be the password itself: it is not repeated.
            raise ConfigError(
                f"{path}: what user {user!r} has is no bcrypt hash", "make one with: htpasswd -nBC 10 '' | tr -d ':\\n'"
            )
    return dict(section)


def _value(section: dict[str, Any], name: str, path: Path, default: Kind) -> Kind:
    """A setting of the type of its default."""
    value = section.get(name)
    if value is None:
        return default
    is_valid = isinstance(value, type(default))
    if isinstance(default, list):
        is_valid = is_valid and all(isinstance(part, str) for part in value)
    if not is_valid:
        what, hint = WRONG[type(default)]
        raise ConfigError(f"{path}: {name} is {what or repr(value)}", hint)
    found: Kind = value
    return found


def _choice(section: dict[str, Any], name: str, default: str, known: Iterable[str], path: Path) -> str:
    value = _value(section, name, path, "") or default
    if value not in known:
        raise ConfigError(f"{path}: {name} is {value!r}", choice_hint(value, known))
    return value


def server_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.minimum_version = ssl.TLSVersion[WORDS["versions"][tls.min_version]]
        context.maximum_version = ssl.TLSVersion[WORDS["versions"][tls.max_version]]
        if names := [_known(name, WORDS["ciphers"]) for name in tls.cipher_suites if name not in WORDS["always_on"]]:
            context.set_ciphers(":".join(names))
        if tls.curves:
            # Python can set only one: the first.
            context.set_ecdh_curve(_known(tls.curves[0], WORDS["curves"]))
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
    # Otherwise OpenSSL would prompt on the terminal.
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
    """Whether the client's certificate has one of the allowed names."""
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
    """OpenSSL reads certificates from files; inline text becomes a file in memory."""
    if isinstance(part, Path):
        yield str(part)
        return
    descriptor = os.memfd_create("gpulake", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, part.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
