"""The messages for a model, after redaction.

A log is untrusted. So it is given as data, line by line, between marks that cannot occur in it, and nothing in it is an
instruction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpulake.core.diagnosis import CATEGORY_OF, NOT_A_FAILURE, UNKNOWN, Diagnosis, Quote
from gpulake.core.judge_settings import Judge
from gpulake.core.packaged import packaged_text
from gpulake.diagnose.judge.excerpt import chosen
from gpulake.diagnose.judge.redact import Redactor
from gpulake.diagnose.logs.digest import Digest, Line

MOST_LINE = 800  # characters of a line in the prompt; a quarter of them from its end
MOST_READ = 4_000  # characters of a line that are read
MOST_FACTS = 12  # of each kind
MOST_FACT = 300  # characters
MOST_QUOTES = 3
MOST_QUOTE = 160  # characters: a part of a line is enough
CUT = " \u2026 "
UNSEEN = "\ufffd"
# A model may not say that nothing failed: a log could make it hide a failure.
REASONS = tuple(reason for reason in CATEGORY_OF if reason != NOT_A_FAILURE)

Message = dict[str, str]

INSTRUCTIONS = packaged_text("gpulake.diagnose.judge", "instructions.txt")


@dataclass(frozen=True)
class JudgeRequest:
    messages: list[Message]
    schema: dict[str, Any]
    lines: dict[tuple[str, int], Line]  # the lines in the prompt, by their file's name in it and their number
    redactor: Redactor


def request_for(diagnosis: Diagnosis, digests: Sequence[Digest], settings: Judge) -> JudgeRequest:
    """Deterministic, and of bounded length."""
    cited = {(quote.file, quote.line) for quote in (*diagnosis.evidence, *diagnosis.symptoms)}
    lines = chosen([line for digest in digests for line in digest.lines], cited, settings.most_lines)
    redactor = Redactor(names=[diagnosis.node] if diagnosis.node else [])
    facts = _facts(diagnosis)
    # Twice the limit is redacted: a placeholder may be shorter than its value.
    lines = [
        line for line, _ in _first([(line, line.text[:MOST_LINE]) for line in lines], 2 * settings.most_characters)
    ]
    hidden = _hidden_lines(lines, redactor, _texts(facts))
    kept = _first([(line, hidden[line.file, line.number]) for line in lines], settings.most_characters)
    kept.sort(key=lambda pair: (pair[0].file, pair[0].number))
    # Files are numbered: their names are untrusted, and appear only in the data.
    names = sorted({line.file for line, _ in kept} - {""})
    files = {"": "", **{name: f"F{number}" for number, name in enumerate(names, 1)}}
    schema = answer_schema([files[name] for name in names])
    body = [json.dumps(_hidden(facts, redactor), ensure_ascii=False, indent=1)]
    body += ["", "The log:", *_numbered(kept, files, redactor)]
    fence = _fence(body)
    content = "\n".join([f"=== BEGIN {fence} ===", *body, f"=== END {fence} ==="])
    shown_schema = json.dumps(schema, ensure_ascii=False)
    system = INSTRUCTIONS.format(fence=fence, unknown=UNKNOWN, most=MOST_QUOTES, schema=shown_schema)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
    return JudgeRequest(messages, schema, {(files[line.file], line.number): line for line, _ in kept}, redactor)


def prompt_for(diagnosis: Diagnosis, digests: Sequence[Digest], settings: Judge) -> list[Message]:
    """The messages that would be sent."""
    return request_for(diagnosis, digests, settings).messages


def prompt_text(messages: Iterable[Message]) -> str:
    """The messages as text."""
    return "\n".join(f"[{message['role']}]\n{message['content']}\n" for message in messages)


def answer_schema(files: Sequence[str] = ()) -> dict[str, Any]:
    """Lengths are bounded because small models may not stop."""
    quote: dict[str, Any] = {"line": {"type": "integer"}, "quote": {"type": "string", "maxLength": MOST_QUOTE}}
    if files:
        quote["file"] = {"type": "string", "enum": list(files)}
    properties = {
        "reason": {"type": "string", "enum": list(REASONS)},
        "evidence": {"type": "array", "minItems": 1, "maxItems": MOST_QUOTES, "items": _object(quote)},
        "cause": {"type": "string", "maxLength": MOST_FACT},
        "remedy": {"type": "string", "maxLength": MOST_FACT},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    }
    return _object(properties)


def plain(text: str) -> str:
    """Printable characters only: no control codes, no invisible or bidirectional characters, no line ends."""
    return "".join(letter if letter.isprintable() else " " if letter == "\t" else UNSEEN for letter in text)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _facts(diagnosis: Diagnosis) -> dict[str, Any]:
    def quotes(found: Sequence[Quote]) -> list[dict[str, Any]]:
        return [{"line": quote.line, "text": quote.text} for quote in found[:MOST_FACTS]]

    return {
        "what rules found": {
            "verdict": diagnosis.verdict,
            "reason": diagnosis.reason,
            "cause": diagnosis.cause,
            "evidence": quotes(diagnosis.evidence),
            "symptoms": quotes(diagnosis.symptoms),
            "lines read": diagnosis.lines_read,
        },
        "what was measured": list(diagnosis.telemetry[:MOST_FACTS]),
        "similar past cases": [
            {"reason": case.reason, "cause": case.cause, "likeness": case.score, "confirmed": case.is_confirmed}
            for case in diagnosis.similar[:MOST_FACTS]
        ],
    }


def _hidden_lines(lines: Sequence[Line], redactor: Redactor, others: Sequence[str]) -> dict[tuple[str, int], str]:
    """In the order of the log: a private key is recognised by the lines around it."""
    ordered = sorted(lines, key=lambda line: (line.file, line.number))
    texts = [_read(line.text) for line in ordered]
    redactor.learn([*texts, *(line.file for line in ordered), *others])
    hidden = redactor.hide_lines(texts)
    return {(line.file, line.number): _shortened(text) for line, text in zip(ordered, hidden, strict=True)}


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [_read(value)]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in children for text in _texts(child)]


def _hidden(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return _shortened(redactor.hide(_read(value)), MOST_FACT)
    if isinstance(value, dict):
        return {name: _hidden(child, redactor) for name, child in value.items()}
    return [_hidden(child, redactor) for child in value] if isinstance(value, list) else value


def _read(text: str) -> str:
    """The beginning of a long line, up to a whole word, so that no secret is cut in two."""
    if len(text) <= MOST_READ:
        return plain(text)
    begin = plain(text[:MOST_READ])
    return begin[: begin.rfind(" ") + 1 or MOST_LINE] + CUT


def _shortened(text: str, most: int = MOST_LINE) -> str:
    if len(text) <= most:
        return text
    head, tail = text[: most - most // 4], text[-(most // 4) :]
    if head.rfind("<") > head.rfind(">"):
        head = head[: head.rfind("<")]
    if 0 <= tail.find(">") < (tail.find("<") if "<" in tail else len(tail)):
        tail = tail[tail.find(">") + 1 :]
    return head + CUT + tail


def _first(lines: Sequence[tuple[Line, str]], most: int) -> list[tuple[Line, str]]:
    """As many lines as fit, at least one; the most important come first."""
    kept: list[tuple[Line, str]] = []
    spent = 0
    for line, text in lines:
        spent += len(text) + 8
        if spent > most and kept:
            break
        kept.append((line, text))
    return kept


def _numbered(lines: Sequence[tuple[Line, str]], files: dict[str, str], redactor: Redactor) -> list[str]:
    found: list[str] = []
    last_file: str | None = None
    for line, text in lines:
        if line.file and line.file != last_file:
            found.append(f"file {files[line.file]}: {plain(redactor.hide(line.file))[:MOST_FACT]}")
        last_file = line.file
        found.append(f"{line.number}| {text}")
    return found


def _fence(body: Sequence[str]) -> str:
    """Derived from the data, so that it is reproducible, and not contained in it."""
    text = "\n".join(body)
    mark = hashlib.sha256(text.encode()).hexdigest()[:16].upper()
    while mark in text.upper():
        mark = hashlib.sha256(mark.encode()).hexdigest()[:16].upper()
    return f"DATA {mark}"
