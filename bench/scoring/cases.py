"""Logs of which the truth is known, in folders laid out as the public ones are."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Words that refine a reason, and the reason that they name by themselves.
_OF_SUBTAG = {"port_in_use": "PortInUse"}
_LAST_COLUMN = re.compile(r"\|\s*([\d, ]+)\s*$")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Case:
    """A log, and what is known of it."""

    id: str
    log: bytes
    accept: tuple[str, ...]  # reasons that count as right, the label first
    action: str = ""
    evidence: tuple[str, ...] = ()
    is_symptom_only: bool = False
    outcome: str = ""  # success, aborted or none, where only that is known
    telemetry: Path | None = None
    repository: str = ""  # whose logs are alike


@dataclass(frozen=True)
class HangCase:
    """Dumps of a hang, and the ranks that the others wait for."""

    id: str
    dumps: Path
    missing: frozenset[int]
    at_fault: frozenset[int]  # ranks that were made to fail: naming one of them is no mistake


def failure_logs(folder: Path) -> Iterator[Case]:
    with (folder / "cases.jsonl").open(encoding="utf-8") as rows:
        for row in map(json.loads, rows):
            named = _OF_SUBTAG.get(row.get("subtag") or "")
            yield Case(
                id=row["id"],
                log=row["log"].encode(),
                accept=(row["reason"], *((named,) if named else ()), *row.get("accept", ())),
                action=row.get("recoverable", ""),
                evidence=tuple(row.get("evidence") or ()),
                is_symptom_only=bool(row.get("symptom_only")),
                repository=row.get("source_repo") or row["id"],
            )


def lab(folder: Path) -> Iterator[Case]:
    telemetry = folder / "telemetry.jsonl"
    for row in map(json.loads, (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines()):
        log = folder / "logs" / f"{row['id']}.log"
        if log.exists():
            yield Case(
                id=row["id"],
                log=log.read_bytes(),
                accept=(row["reason"], *row.get("accept", ())),
                action=row.get("recoverable", ""),
                is_symptom_only=bool(row.get("symptom_only")),
                telemetry=telemetry if telemetry.exists() else None,
                repository="lab",
            )


def mlperf_logs(folder: Path) -> Iterator[Case]:
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            path = folder / "logs" / f"{row['file']}.gz"
            if path.exists():
                submitter = "__".join(row["file"].split("__")[:2])
                log = gzip.decompress(path.read_bytes())
                yield Case(row["file"], log, (), outcome=row["outcome"], repository=submitter)


def hangs(folder: Path) -> Iterator[HangCase]:
    for reference in sorted(folder.glob("*_reference.txt")):
        dumps = folder / reference.name.removesuffix("_reference.txt")
        if not dumps.is_dir():
            continue
        columns = [_LAST_COLUMN.search(line) for line in reference.read_text(encoding="utf-8").splitlines()]
        missing = {int(number) for column in columns if column for number in _NUMBER.findall(column[1])}
        injected = dumps / "fault_injection.log"
        faults = injected.read_text(encoding="utf-8") if injected.exists() else ""
        at_fault = {int(rank) for rank in re.findall(r"^Rank (\d+), fault_type", faults, re.MULTILINE)}
        yield HangCase(dumps.name, dumps, frozenset(missing), frozenset(at_fault))


SETS: dict[str, Callable[[Path], Iterator[Case]]] = {
    "failure_logs": failure_logs,
    "lab": lab,
    "mlperf_logs": mlperf_logs,
}
HANGS = "nccl_flight_recorder"
