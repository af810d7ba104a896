"""A diagnosis on one screen: the cause, the lines that prove it, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from gpulake.core.diagnosis import Diagnosis, Quote, Similar
from gpulake.core.words import amount, count, label, share

WIDTH = 11  # of the words in the margin
MOST_EVIDENCE = 3
MOST_SYMPTOMS = 4
MOST_SIMILAR = 3
MOST_FACTS = 5
DO = {
    "auto_restart": "Restart the job from its last checkpoint.",
    "cordon_node_and_restart": "Cordon the node, then restart the job from its last checkpoint.",
    "needs_config_change": "Do not restart it as it is: its configuration has to change.",
    "needs_code_fix": "Do not restart it as it is: its code has to change.",
    "needs_data_fix": "Do not restart it as it is: its data have to be mended.",
    "none": "Nothing.",
    "unknown": "Look at the lines above; nothing in the log says whether a restart would help.",
}
COLOUR = {"failed": "red", "healthy": "green", "unknown": "yellow"}
# Lines around a line of the evidence, by its file and number.
Context = Mapping[tuple[str, int], str]


def print_card(diagnosis: Diagnosis, context: Context, notes: Sequence[str] = (), width: int = 10_000) -> None:
    """Whatever comes from the log is a label: it cannot steer the terminal."""
    click.secho(_cut(headline(diagnosis), width), fg=COLOUR[diagnosis.verdict], bold=True)
    for line in _body(diagnosis, context):
        click.echo(_cut(line, width))
    for note in notes:
        click.secho(_cut(label(note), width), dim=True)


def headline(diagnosis: Diagnosis) -> str:
    if diagnosis.verdict == "healthy":
        return "The job did not fail"
    if diagnosis.reason == "unknown":
        return "Why the job ended is unknown" if diagnosis.verdict == "unknown" else "The job failed; why is unknown"
    where = [f"rank {diagnosis.rank}"] if diagnosis.rank is not None else []
    where += [f"node {label(diagnosis.node)}"] if diagnosis.node else []
    return f"{label(diagnosis.reason)} ({diagnosis.category})" + (f" on {', '.join(where)}" if where else "")


def _body(diagnosis: Diagnosis, context: Context) -> Iterator[str]:
    yield f"  {label(diagnosis.cause)}"
    if diagnosis.evidence:
        yield ""
        yield from _quoted("Evidence", diagnosis.evidence[:MOST_EVIDENCE], context)
    if diagnosis.symptoms:
        yield from _quoted("Then", diagnosis.symptoms[:MOST_SYMPTOMS], {})
        if len(diagnosis.symptoms) > MOST_SYMPTOMS:
            yield _row("", f"and {count(len(diagnosis.symptoms) - MOST_SYMPTOMS, 'more symptom')}")
    if diagnosis.missing_ranks:
        yield _row("Missing", "ranks " + ", ".join(map(str, diagnosis.missing_ranks)))
    yield from _rows("Telemetry", [label(fact) for fact in diagnosis.telemetry[:MOST_FACTS]])
    yield ""
    yield from _rows("Do", _steps(diagnosis))
    yield from _rows("Seen before", [_similar(case) for case in diagnosis.similar[:MOST_SIMILAR]])
    if diagnosis.gpu_hours_lost is not None:
        yield _row("Lost", f"{amount(diagnosis.gpu_hours_lost)} GPU-hours")
    yield _row("Read", _reading(diagnosis))


def _steps(diagnosis: Diagnosis) -> list[str]:
    first = DO[diagnosis.recovery.action]
    if diagnosis.recovery.why:
        first += f" {label(diagnosis.recovery.why)}"
    return [first, *([label(diagnosis.remedy)] if diagnosis.remedy else [])]


def _similar(case: Similar) -> str:
    word = "confirmed" if case.is_confirmed else "not confirmed"
    return f"{case.incident_id}  {case.score:.2f}  {label(case.reason)}, {word}: {label(case.cause, 200)}"


def _reading(diagnosis: Diagnosis) -> str:
    kept = f"kept {diagnosis.lines_kept:,} ({share(diagnosis.lines_kept, diagnosis.lines_read)})"
    parts = [f"{count(diagnosis.lines_read, 'line')}, {kept}"]
    if diagnosis.runs > 1:
        parts.append(f"run {diagnosis.run} of {diagnosis.runs}")
    if diagnosis.verdict != "healthy":
        parts.append(f"confidence {diagnosis.confidence:.2f} by {diagnosis.method} {label(diagnosis.rule)}".rstrip())
    if diagnosis.incident_id:
        parts.append(f"incident {diagnosis.incident_id}")
    return "; ".join(parts)


def _quoted(word: str, quotes: Sequence[Quote], context: Context) -> Iterator[str]:
    """Each with the line before and the one behind it; lines that follow each other are told once."""
    told: set[tuple[str, int]] = set()
    wanted = {(quote.file, quote.line) for quote in quotes}
    file = ""
    for quote in quotes:
        if quote.file != file:
            file = quote.file
            yield f"{word:<{WIDTH}} {label(file)}"
            word = ""
        for number in range(quote.line - 1, quote.line + 2):
            key = (quote.file, number)
            text = quote.text if number == quote.line else context.get(key)
            if text is None or key in told or (number != quote.line and key in wanted):
                continue
            told.add(key)
            mark = "▶" if number == quote.line and context else " "
            yield f"{word:<{WIDTH}} {mark} {number:>7,}  {label(text.strip())}"
            word = ""


def _rows(word: str, texts: Sequence[str]) -> Iterator[str]:
    for position, text in enumerate(texts):
        yield _row("" if position else word, text)


def _row(word: str, text: str) -> str:
    return f"{word:<{WIDTH}} {text}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
