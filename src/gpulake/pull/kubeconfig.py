"""Where a Kubernetes API is and how one may ask it: by a kubeconfig file, or by the account of the pod that asks."""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from gpulake.core.addresses import is_loopback
from gpulake.core.errors import ConfigError, PullError, require
from gpulake.core.http_client import tls_context

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_SECONDS = 60
KUBECTL_HINT = "try the same with kubectl: kubectl --context NAME get pods"


@dataclass(frozen=True)
class Access:
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)


def access(kubeconfig: str, context: str, environment: Mapping[str, str], account: Path = ACCOUNT) -> Access:
    """As kubectl does: the file that is named, KUBECONFIG, ~/.kube/config, or else the pod's own account."""
    named = kubeconfig or environment.get("KUBECONFIG", "")
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    files = [Path(one) for one in named.split(os.pathsep) if one] or ([home] if home.is_file() else [])
    if files:
        return _of_files(files, context, environment)
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or context:
        raise ConfigError(
            "no kubeconfig and no account of a pod",
            "name a file with --kubeconfig, or run this in a pod of the cluster",
        )
    token = _read(account / "token").decode().strip()
    host = f"[{host}]" if ":" in host else host
    return Access(f"https://{host}:{port}", _bearer(token), tls_context(account / "ca.crt"))


def _of_files(files: list[Path], context: str, environment: Mapping[str, str]) -> Access:
    """Of several files, the first that has an entry counts."""
    merged: dict[str, dict[str, tuple[Path, dict[str, Any]]]] = {"clusters": {}, "users": {}, "contexts": {}}
    current = context
    for file in files:
        document = _document(file)
        current = current or str(document.get("current-context") or "")
        for kind, known in merged.items():
            for entry in document.get(kind) or ():
                if isinstance(entry, dict) and isinstance(own := entry.get(kind.removesuffix("s")), dict):
                    known.setdefault(str(entry.get("name")), (file, own))
    names = ", ".join(merged["contexts"]) or "none"
    require(current in merged["contexts"], f"no context {current!r} in {files[0]}", f"--context, one of: {names}")
    _, chosen = merged["contexts"][current]
    cluster = merged["clusters"].get(str(chosen.get("cluster")))
    if cluster is None:
        raise ConfigError(f"the context {current!r} names no cluster of {files[0]}", "check the file")
    user = merged["users"].get(str(chosen.get("user")), (cluster[0], {}))
    return _access(*cluster, *user, environment)


def _access(
    file: Path, cluster: dict[str, Any], user_file: Path, user: dict[str, Any], environment: Mapping[str, str]
) -> Access:
    url = str(cluster.get("server") or "").rstrip("/")
    require(url.startswith(("https://", "http://")), f"{file} names no server", "set `server` of the cluster")
    unsafe = cluster.get("insecure-skip-tls-verify")
    require(not unsafe, f"{file} switches off the check of the certificate", "set certificate-authority instead")
    require(
        not cluster.get("tls-server-name"), f"{file} sets tls-server-name", "name the server as its certificate does"
    )
    require(
        not user.get("auth-provider"),
        f"{user_file} uses an auth-provider, which Kubernetes no longer has",
        "use a token, a client certificate or an exec plugin",
    )
    if "exec" in user:
        user = user | _plugin(user["exec"], environment)
    token = str(user.get("token") or "")
    if not token and user.get("tokenFile"):
        token = _read(user_file.parent / str(user["tokenFile"])).decode().strip()
    is_safe = url.startswith("https:") or is_loopback(urlsplit(url).hostname or "")
    require(is_safe or not token, f"a token would be sent in the clear to {url}", "set an https:// server")
    return Access(url, _bearer(token) if token else {}, _context(file, cluster, user_file, user))


def _context(file: Path, cluster: dict[str, Any], user_file: Path, user: dict[str, Any]) -> ssl.SSLContext | None:
    if not str(cluster["server"]).startswith("https:"):
        return None
    found = tls_context(None)
    authority = _content(file, cluster, "certificate-authority")
    certificate = _content(user_file, user, "client-certificate")
    key = _content(user_file, user, "client-key")
    # The library reads keys from files only: one that nobody else can read, for a moment.
    with TemporaryDirectory(prefix="gpulake-") as folder:
        try:
            if authority:
                found = ssl.create_default_context(cadata=authority.decode())
            if certificate and key:
                pair = Path(folder) / "client.pem"
                pair.touch(mode=0o600)
                pair.write_bytes(certificate + b"\n" + key)
                found.load_cert_chain(pair)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"a certificate or key that {file} names cannot be read", "check its PEM data") from error
    return found


def _content(file: Path, entry: dict[str, Any], name: str) -> bytes:
    if data := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error:
            raise ConfigError(f"{name}-data of {file} is no base64", "check the file") from None
    return _read(file.parent / str(entry[name])) if entry.get(name) else b""


def _plugin(entry: object, environment: Mapping[str, str]) -> dict[str, Any]:
    """What an exec plugin gives: a token, or a certificate and its key. It is started from a list of arguments."""
    plugin = entry if isinstance(entry, dict) else {}
    command = [str(word) for word in (plugin.get("command"), *(plugin.get("args") or ())) if word is not None]
    more = {str(one.get("name")): str(one.get("value", "")) for one in plugin.get("env") or () if isinstance(one, dict)}
    version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    words = "the exec plugin of the kubeconfig"
    hint = str(plugin.get("installHint") or "") or "run it by hand, or use a context with a token or a certificate"
    try:
        done = subprocess.run(  # noqa: S603  the user's own kubeconfig names it, and kubectl starts it as well
            command,
            env={**environment, **more, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=EXEC_SECONDS,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
    except (OSError, subprocess.SubprocessError) as error:
        raise PullError(
            f"{words} failed: {command[0] if command else 'no command'}: {type(error).__name__}", hint
        ) from None
    except (ValueError, LookupError, TypeError):
        raise PullError(f"{words} printed no ExecCredential", hint) from None
    names = {"token": "token", "clientCertificateData": "client-certificate", "clientKeyData": "client-key"}
    given = {names[key]: value for key, value in status.items() if key in names} if isinstance(status, dict) else {}
    encoded = {f"{key}-data": base64.b64encode(str(given.pop(key)).encode()) for key in [*given] if key != "token"}
    return given | {key: value.decode() for key, value in encoded.items()}


def _document(file: Path) -> dict[str, Any]:
    text = _read(file).decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except ValueError:
        found = _yaml(file, text)
    require(isinstance(found, dict), f"{file} is no kubeconfig", "check the file")
    return dict(found)


def _yaml(file: Path, text: str) -> object:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError(
            f"{file} is YAML, which needs the package pyyaml",
            "pip install pyyaml; or write it as JSON: kubectl config view --raw --flatten -o json > FILE",
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is neither JSON nor YAML", "check the file") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", KUBECTL_HINT) from error


def _bearer(token: str) -> dict[str, str]:
    require(token.isprintable() and bool(token), "the token is empty or holds a control character", KUBECTL_HINT)
    return {"Authorization": f"Bearer {token}"}
