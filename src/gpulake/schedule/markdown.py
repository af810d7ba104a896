"""What a person reads in the scheduler's artefacts. User ids and file names come from outside: they stay text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulake.core.types import Finding

MOST_FINDINGS = 20
# What begins a link, an image, an address, emphasis, code, a table cell or a line through in some Markdown dialect.
MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~:@$^=]|(?<=www)\.)", re.IGNORECASE)
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def plain(text: str) -> str:
    """One line that can be printed: no line breaks, control characters, reversed writing or undecodable bytes."""
    return "".join(character if character.isprintable() else " " for character in text)


def escape(text: str) -> str:
    """Reads as the text itself, whatever it holds."""
    return MARKS.sub(r"\\\1", plain(text)).translate(ENTITIES)


def findings_page(findings: Sequence[Finding]) -> str:
    lines = ["# What was found", ""]
    lines.extend(f"1. **{escape(each.headline)}**<br>{escape(each.detail)}" for each in findings[:MOST_FINDINGS])
    if not findings:
        lines.append("Nothing stands out.")
    if len(findings) > MOST_FINDINGS:
        lines.extend(["", f"And {len(findings) - MOST_FINDINGS} more: `gpulake sql 'from findings'`"])
    return "\n".join([*lines, ""])
