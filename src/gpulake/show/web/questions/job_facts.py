"""The facts and the advice of `gpulake report job`, for the page of a job."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.core.words import opened
from gpulake.lake import LakeReader
from gpulake.show.job_report import NEEDED, JobReport, job_report
from gpulake.show.job_text import asked_words, cost, ended_words, energy_words, held_words, ran_words, used_words
from gpulake.show.web.questions import Computed, Value

ROWS = pa.schema([("place", pa.int32()), ("headline", pa.string()), ("detail", pa.string()), ("level", pa.string())])
TABLES = frozenset(NEEDED | {"bronze_slurm_jobs", "diagnoses", "findings", "incidents"})


def facts(reader: LakeReader, config: Config, given: Mapping[str, Value]) -> pa.Table:
    report = _report(reader, config, given)
    if report is None:
        return ROWS.empty_table()
    words = {
        "Asked for": asked_words(report.asked),
        "Ran": ran_words(report),
        "Held": held_words(report),
        "Used": used_words(report),
        "Energy": energy_words(report),
        "Cost": cost(report),
        "Ended": ended_words(report),
    }
    return _table([(f"{word}: {text}", "") for word, text in words.items() if text])


def changes(reader: LakeReader, config: Config, given: Mapping[str, Value]) -> pa.Table:
    report = _report(reader, config, given)
    return _table([(opened(change.advice), change.why) for change in report.changes] if report else [])


def _report(reader: LakeReader, config: Config, given: Mapping[str, Value]) -> JobReport | None:
    job, cluster = given.get("job"), given.get("cluster")
    if job is None:
        return None
    try:
        return job_report(reader, config, str(job), None if cluster is None else str(cluster))
    except UsageError:  # no such job, or several
        return None


def _table(rows: list[tuple[str, str]]) -> pa.Table:
    named = [
        {"place": place, "headline": headline, "detail": detail, "level": "info"}
        for place, (headline, detail) in enumerate(rows)
    ]
    return pa.Table.from_pylist(named, schema=ROWS)


COMPUTED = {
    "job_facts": Computed(facts, TABLES, frozenset({"cluster"})),
    "job_changes": Computed(changes, TABLES, frozenset({"cluster"})),
}
