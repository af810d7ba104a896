"""Rows in Avro, by the schema that their writer used. Needs fastavro, of the extra `kafka`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from gpulake.core.errors import UsageError


class AvroSchema:
    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        """References are the schemas of types that it names, those that others need first."""
        if find_spec("fastavro") is None:
            raise UsageError("a reader of Avro is not installed", "install it with: pip install 'gpulake[kafka]'")
        import fastavro

        named: dict[str, Any] = {}
        try:
            for reference in references:
                fastavro.parse_schema(json.loads(reference), named_schemas=named)
            self._schema = fastavro.parse_schema(json.loads(text), named_schemas=named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, TypeError) as error:
            raise ValueError(f"the schema is no Avro: {type(error).__name__} {error}") from None
        self._read = fastavro.schemaless_reader

    def decoded(self, message: bytes) -> Any:
        """Its value, as Python has it. Raises ValueError for what is not of this schema."""
        rest = BytesIO(message)
        try:
            value = self._read(rest, self._schema, None)
        except (EOFError, LookupError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
            raise ValueError(f"not of its Avro schema: {str(error) or type(error).__name__}") from None
        if left := len(message) - rest.tell():
            raise ValueError(f"not of its Avro schema: {left:,} bytes are left")
        return value
