"""Escapes text that a spreadsheet would run as a formula, in every CSV."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import re2

# What starts a formula; some spreadsheets skip blanks before it, and accept full-width signs.
_FORMULA = r"^[\p{Z}\p{C}]*[=+\-@＝＋－＠]|^[\t\r\n]"


def harmless(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Formulas get an apostrophe before them; numbers stay numbers. Nested values become text."""
    return pa.RecordBatch.from_arrays([harmless_column(column) for column in batch.columns], batch.schema.names)


def harmless_texts(texts: Iterable[str]) -> list[str]:
    # Not through an array: making one would import pandas wherever it is installed.
    return [f"'{text}" if re2.search(_FORMULA, text) else text for text in texts]


def harmless_column(column: pa.Array) -> pa.Array:
    if pa.types.is_nested(column.type):
        return harmless_column(pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string()))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    import pyarrow.compute as pc  # a tenth of a second, for text alone

    is_formula = pc.match_substring_regex(column, _FORMULA)
    quote, nothing = (pa.scalar(text, column.type) for text in ("'", ""))
    return pc.if_else(is_formula, pc.binary_join_element_wise(quote, column, nothing), column)
