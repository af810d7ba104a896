"""Markdown of the artefacts. User ids and file names are not trusted: they are escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpulake.core.types import Finding

MOST_FINDINGS = 20
# Characters that start a link, an image, an address, emphasis, code, a table cell or strikethrough in some dialect.
MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~:@$^=]|(?<=www)\.)", re.IGNORECASE)
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def plain(text: str) -> str:
    """One printable line: no line breaks, control characters, bidirectional marks or undecodable bytes."""
    return "".join(character if character.isprintable() else " " for character in text)


def escape(text: str) -> str:
    """Renders as the text itself."""
    return MARKS.sub(r"\\\1", plain(text)).translate(ENTITIES)


def findings_page(findings: Sequence[Finding]) -> str:
    lines = ["# What was found", ""]
    lines.extend(f"1. **{escape(each.headline)}**<br>{escape(each.detail)}" for each in findings[:MOST_FINDINGS])
    if not findings:
        lines.append("Nothing stands out.")
    if len(findings) > MOST_FINDINGS:
        lines.extend(["", f"And {len(findings) - MOST_FINDINGS} more: `gpulake sql 'from findings'`"])
    return "\n".join([*lines, ""])
