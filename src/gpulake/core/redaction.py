"""Secrets are redacted before anything is written: `***` replaces each one, and the rest of the text stays.

Hidden are tokens by their shape (AWS, Hugging Face, GitHub, GitLab, OpenAI, Slack, Google, NVIDIA, npm, PyPI, Docker,
Databricks, Vault, W&B, JWT, long hexadecimal ones), values after a name that says what they are (passwords, keys,
tokens, headers, cookies, flags), passwords in addresses, private keys, and long runs of letters and digits that nobody
would have typed. A model is sent less: see diagnose/judge/redact.py. Names of people, machines and places stay here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpulake.core import secret_words
from gpulake.core.diagnosis import Diagnosis

HIDDEN = "***"
LEAST_CHARACTERS = 6  # of a text that may contain a secret
# Names of machines, jobs and files: they are compared, and a hash among them is not a secret.
NAMES = frozenset(
    {
        *("node", "nodes", "faulty", "good", "undecided", "failed_node", "claimed_node", "cluster"),
        *("log", "subject", "file", "checkpoint", "link", "definition", "template", "sha256"),
    }
)


def redacted(text: str) -> str:
    """A text of one line or several."""
    if len(text) < LEAST_CHARACTERS:
        return text
    if not text.isascii():
        text = text.encode(errors="replace").decode()  # lone surrogates, which no pattern can match
    if "\n" not in text:
        return _hidden(text)
    lines = text.split("\n")
    keys = secret_words.key_lines(lines)
    return "\n".join(HIDDEN if number in keys and line else _hidden(line) for number, line in enumerate(lines))


def without_secrets(value: Any, name: str = "") -> Any:
    """A row or a document, with every text redacted except ids and file names."""
    if name in NAMES:
        return value
    if isinstance(value, str):
        return value if name.endswith("_id") else redacted(value)
    if isinstance(value, Mapping):
        return {key: without_secrets(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(one, name) for one in value]
    return value


def redacted_diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """The text as it may be shown and stored."""
    return replace(
        diagnosis,
        cause=redacted(diagnosis.cause),
        remedy=redacted(diagnosis.remedy),
        evidence=tuple(replace(quote, text=redacted(quote.text)) for quote in diagnosis.evidence),
        symptoms=tuple(replace(quote, text=redacted(quote.text)) for quote in diagnosis.symptoms),
        telemetry=tuple(map(redacted, diagnosis.telemetry)),
        recovery=replace(diagnosis.recovery, why=redacted(diagnosis.recovery.why)),
    )


def _hidden(line: str) -> str:
    kept, position = [], 0
    for start, end in sorted(_spans(line)):
        if start >= position:
            kept += [line[position:start], HIDDEN]
        position = max(position, end)
    return "".join([*kept, line[position:]]) if kept else line


def _spans(line: str) -> Iterator[tuple[int, int]]:
    for finder in (secret_words.named, secret_words.tokens, secret_words.credentials, secret_words.likely):
        for start, end, _ in finder(line):
            yield start, end
    for start, end, _ in secret_words.random_runs(line):
        if not _is_in_path(line, start):
            yield start, end


def _is_in_path(line: str, place: int) -> bool:
    """Paths are kept: they are part of the evidence, and names of runs look random."""
    begin = max(line.rfind(mark, 0, place) for mark in " \t'\"`([{<=:,;|") + 1
    is_address = line[begin - 1 : begin + 2] == "://"
    return line.startswith(("/", "~/", "./", "../"), begin) and not is_address
