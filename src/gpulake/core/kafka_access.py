"""How a client of Kafka logs in: from the environment only."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from gpulake.core.errors import UsageError

PREFIX = "GPULAKE_KAFKA_"
# Of the environment, and what librdkafka calls it.
SECRETS = {
    "USER": "sasl.username",
    "PASSWORD": "sasl.password",
    "SASL_MECHANISM": "sasl.mechanism",
    "SECURITY_PROTOCOL": "security.protocol",
    "CA_FILE": "ssl.ca.location",
    "CERTIFICATE_FILE": "ssl.certificate.location",
    "KEY_FILE": "ssl.key.location",
    "KEY_PASSWORD": "ssl.key.password",
}


def security(environment: Mapping[str, str]) -> dict[str, str]:
    """A user implies SASL; a file of certificates, TLS."""
    found = {key: environment[PREFIX + word] for word, key in SECRETS.items() if environment.get(PREFIX + word)}
    has_user, has_files = "sasl.username" in found, any(key.startswith("ssl.") for key in found)
    if has_user:
        found.setdefault("sasl.mechanism", "SCRAM-SHA-512")
    if has_user or has_files:
        found.setdefault("security.protocol", "SASL_SSL" if has_user else "SSL")
    return found


def require_client() -> None:
    if find_spec("confluent_kafka") is None:
        raise UsageError("the client of Kafka is not installed", "install it with: pip install 'gpulake[kafka]'")
