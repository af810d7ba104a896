"""The web configuration file: what it may say, what it may not, and how passwords are compared."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulake.collect.live import access
from gpulake.collect.live.access import TooManyError, Verifier, load_crypt
from gpulake.collect.live.web_config import Tls, WebConfig, read_web_config, server_context
from gpulake.core.errors import ConfigError

# Of the password "secret", at the least cost.
SECRET = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"


def read(tmp_path: Path, text: str) -> WebConfig:
    path = tmp_path / "web.yml"
    path.write_text(text, encoding="utf-8")
    return read_web_config(path)


def test_everything_that_the_file_may_say_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        f"""
tls_server_config:
  cert_file: certs/server.pem
  key_file: /etc/keys/server.key
  client_ca_file: ca.pem
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [scraper]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences: [X25519]
http_server_config:
  http2: true
  headers:
    X-Frame-Options: deny
    X-XSS-Protection:
basic_auth_users:
  alice: {SECRET}
auth_excluded_paths: [/healthz]
""",
    )

    assert found == WebConfig(
        tls=Tls(
            cert=tmp_path / "certs/server.pem",
            key=Path("/etc/keys/server.key"),
            client_ca=tmp_path / "ca.pem",
            client_auth_type="RequireAndVerifyClientCert",
            client_allowed_sans=("scraper",),
            min_version="TLS12",
            max_version="TLS13",
            cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",),
            prefers_server_ciphers=False,
            curves=("X25519",),
        ),
        headers={"X-Frame-Options": "deny"},
        users={"alice": SECRET},
        open_paths=("/healthz",),
        notes=("http2 has no effect: pages are served over HTTP/1.1",),
    )


@pytest.mark.parametrize("text", ["", "{}", "tls_server_config:\nbasic_auth_users:\n"])
def test_a_file_that_says_nothing_asks_for_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == WebConfig()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("basic_auth_user: {}", "no setting 'basic_auth_user' in the file", "did you mean 'basic_auth_users'?"),
        ("tls_server_config: {certfile: a}", "no setting 'certfile' in tls_server_config", "did you mean 'cert_file'?"),
        ("tls_server_config: {cert_file: a}", "has no key_file", "give both cert_file and key_file"),
        ("tls_server_config: {cert: a, cert_file: a, key: b}", "has both cert and cert_file", "keep one of them"),
        ("tls_server_config: {cert: a, key: b, min_version: TLS14}", "min_version is 'TLS14'", "did you mean 'TLS13'?"),
        ("tls_server_config: {cert: a, key: 1}", "key is no text", "put it in quotes"),
        (
            "tls_server_config: {cert: a, key: b, client_ca: c}",
            "no effect without client_auth_type",
            "client_auth_type",
        ),
        (
            "tls_server_config: {cert: a, key: b, client_auth_type: RequireAndVerifyClientCert}",
            "has nothing to verify with",
            "give client_ca_file",
        ),
        (
            "tls_server_config: {cert: a, key: b, client_auth_type: RequireAnyClientCert}",
            "would believe any certificate",
            "use RequireAndVerifyClientCert",
        ),
        ("http_server_config: {headers: {X-Evil: 1}}", "no setting 'X-Evil' in headers", "choose from: Content-"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\r\\nb"}}', "cannot have", "use plain ASCII"),
        ("basic_auth_users: {alice: hunter2}", "what user 'alice' has is no bcrypt hash", "htpasswd"),
        ("basic_auth_users: {'a:b': x}", "'a:b' is no user name", "without a colon"),
        ("basic_auth_users: [alice]", "basic_auth_users", "user: hash"),
        ("- a", "the file in", "key: value"),
        ("a: [", "is not YAML", "mind the indentation"),
        ("!!python/object/apply:os.system [id]", "is not YAML", "mind the indentation"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)

    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "hunter2" not in caught.value.message + caught.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_web_config(tmp_path / "web.yml")


def test_without_pyyaml_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "{}")

    assert caught.value.hint == "pip install pyyaml"


def self_signed(password: bytes = b"") -> tuple[str, str]:
    """A certificate and its key, as texts."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "n1")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        locked = serialization.BestAvailableEncryption(password)
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), text.decode()


def test_certificates_may_stand_in_the_file_itself() -> None:
    cert, key = self_signed()
    context = server_context(
        Tls(
            cert=cert,
            key=key,
            client_ca=cert,
            client_auth_type="VerifyClientCertIfGiven",
            min_version="TLS13",
            cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            curves=("CurveP256",),
        )
    )

    assert (context.verify_mode, context.minimum_version) == (ssl.CERT_OPTIONAL, ssl.TLSVersion.TLSv1_3)
    assert context.cert_store_stats()["x509"] == 1
    assert [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"] == [
        "ECDHE-RSA-AES128-GCM-SHA256"
    ]


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it() -> None:
    cert, key = self_signed(b"password")
    with pytest.raises(ConfigError) as caught:
        server_context(Tls(cert=cert, key=key))

    assert caught.value.message == "TLS cannot be set up: the key is protected by a password"


def test_a_cipher_that_go_does_not_know_is_named() -> None:
    with pytest.raises(ConfigError, match="knows no 'TLS_NULL'"):
        server_context(Tls(cert="", key="", cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_NULL")))


class Counted:
    """libcrypt, and how often it was asked."""

    def __init__(self) -> None:
        self.salts: list[bytes] = []
        self._crypt = load_crypt()

    def __call__(self, password: bytes, salt: bytes) -> bytes:
        self.salts.append(salt)
        return self._crypt(password, salt)


@pytest.mark.parametrize("mark", ["$2a$", "$2b$", "$2y$"])
def test_the_right_password_is_right_whatever_the_mark_of_its_hash(mark: str) -> None:
    verifier = Verifier({"alice": mark + SECRET[4:]}, load_crypt(), lambda: 0.0)

    assert [verifier.is_right("alice", word) for word in ("secret", "Secret", "", "secret\0", "secret ")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_what_was_right_costs_no_hash_again_and_what_was_wrong_does() -> None:
    crypt = Counted()
    verifier = Verifier({"alice": SECRET}, crypt, lambda: 0.0)
    for word in ("secret", "secret", "wrong", "wrong"):
        verifier.is_right("alice", word)

    assert len(crypt.salts) == 3


def test_a_user_who_does_not_exist_costs_a_hash_of_the_highest_cost() -> None:
    crypt = Counted()
    dear = "$2b$06$" + SECRET[7:]
    verifier = Verifier({"alice": SECRET, "bob": dear}, crypt, lambda: 0.0)

    assert verifier.is_right("mallory", "secret") is False
    assert crypt.salts == [dear[:29].encode()]


def test_passwords_beyond_a_burst_wait_for_their_second() -> None:
    now = [0.0]
    verifier = Verifier({"alice": SECRET}, lambda *_: b"", lambda: now[0])
    for number in range(access.BURST):
        verifier.is_right("alice", str(number))
    with pytest.raises(TooManyError):
        verifier.is_right("alice", "secret")
    now[0] = 1.0

    assert verifier.is_right("alice", "secret") is False


@given(user=st.text(), password=st.text())
def test_no_text_is_a_password_by_accident(user: str, password: str) -> None:
    verifier = Verifier({"alice": SECRET}, load_crypt(), lambda: 0.0)

    assert verifier.is_right(user, password) is ((user, password) == ("alice", "secret"))


def test_a_system_without_bcrypt_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LIBRARIES", ("libgpulake-has-no-such.so",))
    with pytest.raises(ConfigError) as caught:
        load_crypt()

    assert caught.value.hint.startswith("install libxcrypt")


def test_a_collector_that_is_not_watched_imports_neither_server_nor_tls_nor_yaml() -> None:
    code = """
import sys
from gpulake.cli.collect._options import live_options
from gpulake.collect.live.session import LiveOptions, live
with live(LiveOptions(), interval_seconds=1.0, say=print, environment={}) as observer:
    print(observer, sorted({"http", "ssl", "yaml", "urllib.request", "ctypes", "socketserver"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("None []\n", "")
