"""A diagnosis on one screen: the cause, the evidence, what to do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from gpulake.cli._screen import Screen, cut, wrapped
from gpulake.core.diagnosis import Diagnosis, Quote, Similar
from gpulake.core.redaction import redacted
from gpulake.core.words import amount, count, label, opened, sentence, share
from gpulake.diagnose.story.lines import parse_line

WIDTH = 11  # of the margin
MOST_RANKS = 8  # in the headline
NEAR = 3  # lines before one of the evidence that are searched for context
DO = {
    "auto_restart": "Restart the job from its last checkpoint.",
    "cordon_node_and_restart": "Cordon the node, then restart the job from its last checkpoint.",
    "needs_config_change": "Do not restart it as it is: its configuration has to change.",
    "needs_code_fix": "Do not restart it as it is: its code has to change.",
    "needs_data_fix": "Do not restart it as it is: its data have to be mended.",
    "none": "Nothing.",
    "unknown": "Nothing in the log says whether a restart would help.",
}
ASK = "Samples of its node may tell: give them with --telemetry, or the node's dmesg."
COLOUR = {"failed": "red", "healthy": "green", "unknown": "yellow"}
# Lines around the evidence, by file and number.
Context = Mapping[tuple[str, int], str]
# Carets below a statement, rulers, blank lines, and the first line of every traceback.
_NO_WORDS = re.compile(r"[\W_]*|.*Traceback \(most recent call last\):\s*")


@dataclass(frozen=True)
class Detail:
    """How much of a diagnosis is shown."""

    rows: int  # at most, of a text that needs several
    evidence: int = 3
    has_context: bool = True
    symptoms: int = 4
    facts: int = 5
    similar: int = 3
    notes: int = 3


# The first that fits on the screen is used.
DETAILS = (
    Detail(rows=4),
    Detail(rows=3, symptoms=2, facts=3, similar=2),
    Detail(rows=3, evidence=2, has_context=False, symptoms=2, facts=2, similar=2),
    Detail(rows=2, evidence=1, has_context=False, symptoms=1, facts=1, similar=1, notes=2),
    Detail(rows=2, evidence=1, has_context=False, symptoms=0, facts=1, similar=1, notes=1),
)


def print_card(diagnosis: Diagnosis, context: Context, notes: Sequence[str] = (), screen: Screen | None = None) -> None:
    """Text from the log is printed as a label, so that it cannot control the terminal."""
    first, *rest = card(diagnosis, context, notes, screen or Screen())
    click.secho(first, fg=COLOUR[diagnosis.verdict], bold=True)
    for line in rest:
        click.echo(line)


def card(diagnosis: Diagnosis, context: Context, notes: Sequence[str], screen: Screen) -> list[str]:
    for detail in DETAILS:
        lines = [cut(line, screen.columns) for line in _Card(diagnosis, context, notes, screen.columns, detail).lines()]
        if len(lines) <= screen.lines:
            break
    return lines


def headline(diagnosis: Diagnosis) -> str:
    if diagnosis.verdict == "healthy":
        return "The job did not fail" + (", as far as its log tells" if diagnosis.is_silent else "")
    if diagnosis.reason == "unknown":
        return "Why the job ended is unknown" if diagnosis.verdict == "unknown" else "The job failed; why is unknown"
    where = [_ranks(diagnosis)] if diagnosis.rank is not None or diagnosis.missing_ranks else []
    if diagnosis.node:
        where.append(f"node {label(diagnosis.node)}" + " (claimed by the log)" * diagnosis.is_node_claimed)
    return f"{label(diagnosis.reason)} ({diagnosis.category})" + (f" on {', '.join(where)}" if where else "")


def _ranks(diagnosis: Diagnosis) -> str:
    """The ranks that the others wait for, or the rank where the failure began."""
    ranks = diagnosis.missing_ranks or (diagnosis.rank,)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = f" and {len(ranks) - MOST_RANKS:,} more" if len(ranks) > MOST_RANKS else ""
    return f"ranks {', '.join(map(str, ranks[:MOST_RANKS]))}{more}"


@dataclass(frozen=True)
class _Card:
    diagnosis: Diagnosis
    context: Context
    notes: Sequence[str]
    columns: int
    detail: Detail

    def lines(self) -> Iterator[str]:
        diagnosis, detail = self.diagnosis, self.detail
        yield headline(diagnosis)
        cause = sentence(label(diagnosis.cause))
        yield from self._text("  ", cause)
        if diagnosis.evidence or diagnosis.symptoms or diagnosis.telemetry:
            yield ""
        yield from self._quoted("Evidence", diagnosis.evidence[: detail.evidence], is_marked=True)
        yield from self._quoted("Then", diagnosis.symptoms[: detail.symptoms], is_marked=False)
        hidden = len(diagnosis.symptoms) - detail.symptoms
        if hidden > 0 and detail.symptoms:
            yield self._row("", f"and {count(hidden, 'more symptom')}")
        # The fact that decided the diagnosis is part of the cause already.
        facts = [sentence(label(fact)) for fact in diagnosis.telemetry if sentence(label(fact)) not in cause]
        yield from self._rows("Telemetry", facts[: detail.facts])
        if diagnosis.verdict != "healthy":
            yield ""
            yield from self._rows("Do", _steps(diagnosis))
        yield from self._rows("Seen before", [_similar(case) for case in diagnosis.similar[: detail.similar]], most=1)
        if lost := _lost(diagnosis.gpu_hours_lost):
            yield self._row("Lost", lost)
        yield from self._rows("Read", [_reading(diagnosis)])
        yield from self._rows("Note", [label(note) for note in self.notes[: detail.notes]])
        if len(self.notes) > detail.notes:
            yield self._row("", f"and {count(len(self.notes) - detail.notes, 'more note')}, in --json")

    def _quoted(self, word: str, quotes: Sequence[Quote], is_marked: bool) -> Iterator[str]:
        """By file and line, each line once. Only evidence is marked, and shown with context."""
        files = dict.fromkeys(quote.file for quote in quotes)
        every = (*self.diagnosis.evidence, *self.diagnosis.symptoms)
        numbers = max((len(f"{quote.line + 1:,}") for quote in every), default=0)
        for file in files:
            quoted = {quote.line: quote.text for quote in quotes if quote.file == file}
            shown = {**(self._around(file, quoted) if is_marked and self.detail.has_context else {}), **quoted}
            if file:
                yield self._row(word, label(file))
                word = ""
            for number, text in sorted(shown.items()):
                mark = "▶" if is_marked and number in quoted else " "
                rows = self.detail.rows if is_marked and number in quoted else 1
                yield from self._text(f"{word:<{WIDTH}} {mark} {number:>{numbers},}  ", _plain(text), rows, is_log=True)
                word = ""

    def _around(self, file: str, quoted: Mapping[int, str]) -> dict[int, str]:
        """The nearest line with words before each line, and the line after it."""
        found = {}
        for line in quoted:
            before = (number for number in range(line - 1, line - 1 - NEAR, -1) if self._has_words(file, number))
            numbers = [next(before, line), line + 1]
            found.update({number: self.context[file, number] for number in numbers if self._has_words(file, number)})
        return found

    def _has_words(self, file: str, number: int) -> bool:
        text = self.context.get((file, number))
        return text is not None and not _NO_WORDS.fullmatch(text)

    def _rows(self, word: str, texts: Sequence[str], most: int | None = None) -> Iterator[str]:
        for text in texts:
            yield from self._text(f"{word:<{WIDTH}} ", text, most)
            word = ""

    def _row(self, word: str, text: str) -> str:
        return f"{word:<{WIDTH}} {text}"

    def _text(self, margin: str, text: str, most: int | None = None, is_log: bool = False) -> Iterator[str]:
        """Wrapped into at most `most` rows."""
        room = max(self.columns - len(margin), 20)
        most = most or self.detail.rows
        rows = wrapped(text, room, most)
        if is_log and len(rows) + rows[-1].endswith("…") > 1:
            # Without the prefix of the logger or launcher.
            rows = wrapped(parse_line(text).body.strip() or text, room, most)
        for row in rows:
            yield f"{margin}{row}"
            margin = " " * len(margin)


def _plain(text: str) -> str:
    """A line of the log, redacted, without its indentation and tabs."""
    return label(redacted(textwrap.dedent(text).strip().replace("\t", " ")))


def _steps(diagnosis: Diagnosis) -> list[str]:
    first = DO[diagnosis.recovery.action]
    if diagnosis.recovery.why:
        first += f" {sentence(label(diagnosis.recovery.why))}"
    steps = [first, *([sentence(label(diagnosis.remedy))] if diagnosis.remedy else [])]
    is_open = diagnosis.is_silent and not diagnosis.telemetry and not diagnosis.rule
    return [*steps, ASK] if is_open else steps


def _similar(case: Similar) -> str:
    word = "confirmed" if case.is_confirmed else "not confirmed"
    return (
        f"{case.score:.2f}  {label(case.reason)}, {word}: {opened(label(case.cause, 200))} ({label(case.incident_id)})"
    )


def _lost(hours: float | None) -> str:
    """In GPU-hours or GPU-minutes; less than one GPU-minute is not shown."""
    minutes = (hours or 0.0) * 60
    if minutes < 1:
        return ""
    return f"{amount(hours or 0.0)} GPU-hours" if minutes >= 60 else f"{count(round(minutes), 'GPU-minute')}"


def _reading(diagnosis: Diagnosis) -> str:
    parts = [count(diagnosis.lines_read, "line")]
    if diagnosis.lines_read:
        parts[0] += f", kept {diagnosis.lines_kept:,} ({share(diagnosis.lines_kept, diagnosis.lines_read)})"
    if diagnosis.runs > 1:
        parts.append(f"run {diagnosis.run} of {diagnosis.runs}")
    if diagnosis.reason != "unknown" and diagnosis.verdict != "healthy":
        rule = f" {label(diagnosis.rule)}" if diagnosis.method == "rule" else ""
        parts.append(f"confidence {diagnosis.confidence:.2f} by {diagnosis.method}{rule}")
    if diagnosis.incident_id:
        parts.append(f"incident {diagnosis.incident_id}")
    return "; ".join(parts)
