"""Messages that name their schema, as Confluent's clients write them: a zero byte, four bytes of the id, the rest.

Schemas come from the registry once. What the registry does not have, and what is not of its schema, is the message's
fault; no answer is not: then the message is to be read later.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote
from uuid import UUID

from gpulake.core.addresses import check_url
from gpulake.core.errors import PullError
from gpulake.core.http_client import CutError, HttpClient, RefusedError, authorization, tls_context
from gpulake.formats.avro import AvroSchema
from gpulake.formats.messages import Message
from gpulake.formats.proto_rows import ProtoSchema

PREFIX = "GPULAKE_REGISTRY"
ANSWER_SECONDS = 5.0  # the consumer waits meanwhile
MISSING_SECONDS = 60.0  # a schema that was not there is asked for again
MOST_MISSING = 10_000
MOST_REFERENCES = 100
MOST_SCHEMA_BYTES = 16 << 20
HEAD_BYTES = 5


class Schema(Protocol):
    def decoded(self, message: bytes, /) -> Any: ...


class _JsonSchema:
    """The message is JSON; what it should look like is of no use here."""

    def __init__(self, *_: object) -> None:
        pass

    def decoded(self, message: bytes, /) -> Any:
        return json.loads(message)


KINDS: Mapping[str, Callable[..., Schema]] = {"AVRO": AvroSchema, "PROTOBUF": ProtoSchema, "JSON": _JsonSchema}


def decoded(message: Message, registry: SchemaRegistry | None) -> Message:
    """As JSON; as it is, where it names no schema. Raises RegistryError where the registry does not answer."""
    if message.value[:1] != b"\0" or len(message.value) < HEAD_BYTES:
        return message
    try:
        if registry is None:
            raise ValueError("it begins as a message of a schema registry: give --registry")
        value = registry.schema(int.from_bytes(message.value[1:HEAD_BYTES])).decoded(message.value[HEAD_BYTES:])
        text = json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))
        return message._replace(value=text.encode())
    except (ValueError, TypeError, RecursionError) as error:
        return message._replace(error=str(error) or "it cannot be read")


def _plain(value: object) -> object:
    """Of Avro's logical types, and bytes, as JSON."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else str(value) if isinstance(value, UUID) else repr(value)


class RegistryError(PullError):
    """No answer that could be used: nothing is known of the message yet."""


@dataclass
class SchemaRegistry:
    url: str
    ca_file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    timeout_seconds: float = ANSWER_SECONDS
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        hint = f"secrets come from {PREFIX}_USER and {PREFIX}_PASSWORD, or {PREFIX}_TOKEN"
        check_url("--registry", self.url, "https://registry.example:8081", hint)
        self._client = HttpClient(
            self.url.rstrip("/"),
            {"Accept": "application/vnd.schemaregistry.v1+json", **authorization(self.environment, PREFIX)},
            tls_context(self.ca_file) if self.url.startswith("https:") else None,
            self.timeout_seconds,
            tries=1,
            most_bytes=MOST_SCHEMA_BYTES,
        )
        self._schemas: dict[int, Schema] = {}
        self._bad: dict[int, tuple[float, str]] = {}  # until when, and why

    def schema(self, number: int) -> Schema:
        """ValueError where there is none that can be used; RegistryError where that is not known."""
        if found := self._schemas.get(number):
            return found
        until, why = self._bad.get(number, (0.0, ""))
        if self.now() < until:
            raise ValueError(why)
        try:
            self._schemas[number] = self._fetched(number)
        except ValueError as error:
            if len(self._bad) >= MOST_MISSING:
                self._bad.clear()
            self._bad[number] = (self.now() + MISSING_SECONDS, f"schema {number}: {error}")
            raise ValueError(self._bad[number][1]) from None
        return self._schemas[number]

    def _fetched(self, number: int) -> Schema:
        document = self._ask(f"/schemas/ids/{number}")
        kind = str(document.get("schemaType", "AVRO")).upper()
        if kind not in KINDS:
            raise ValueError(f"a schema of type {kind} is not read")
        return KINDS[kind](str(document["schema"]), self._references(document))

    def _references(self, document: Mapping[str, Any]) -> list[str]:
        """What it names, and what that names, those first that others need."""
        found: dict[tuple[str, str], str] = {}

        def add(one: Mapping[str, Any]) -> None:
            for reference in one.get("references") or ():
                name, version = str(reference["subject"]), str(reference["version"])
                if (name, version) not in found:
                    if len(found) >= MOST_REFERENCES:
                        raise ValueError(f"it refers to more than {MOST_REFERENCES} others")
                    found[name, version] = ""  # begun: a circle ends here
                    inner = self._ask(f"/subjects/{quote(name, safe='')}/versions/{quote(version, safe='')}")
                    add(inner)
                    del found[name, version]  # after what it needs
                    found[name, version] = str(inner["schema"])

        add(document)
        return [text for text in found.values() if text]

    def _ask(self, path: str) -> dict[str, Any]:
        try:
            document = json.loads(self._client.ask(path).body)
            if isinstance(document, dict) and isinstance(document.get("schema"), str):
                return document
        except RefusedError as error:
            if error.status == 404 and _code(error.body) // 100 == 404:
                raise ValueError("the registry does not have it") from None
            hint = f"check {PREFIX}_USER and {PREFIX}_PASSWORD" if error.status in (401, 403) else error.hint
            raise RegistryError(f"no schemas from the registry: {error.message}", hint) from None
        except PullError as error:
            hint = "check --registry and that it runs" if isinstance(error, CutError) else error.hint
            raise RegistryError(f"no schemas from the registry: {error.message}", hint) from None
        except ValueError:
            pass
        raise RegistryError(f"{self.url} does not answer as a schema registry", "check --registry")


def _code(body: bytes) -> int:
    """The registry's own number of an error, such as 40403: a 404 of anything else is not its answer."""
    try:
        return int(json.loads(body)["error_code"])
    except (ValueError, LookupError, TypeError):
        return 0
