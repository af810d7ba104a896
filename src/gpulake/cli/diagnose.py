"""gpulake diagnose: why did my job die?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import TYPE_CHECKING

import click

from gpulake.cli._card import print_card
from gpulake.cli._options import ANY_PATH, json_option, lake_option, settings
from gpulake.cli._output import print_table
from gpulake.cli._progress import progress_bar
from gpulake.cli._screen import screen
from gpulake.core.errors import UsageError
from gpulake.core.redaction import redacted
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.diagnoser import DiagnosisRequest
    from gpulake.diagnose.follow import Notice
    from gpulake.diagnose.many import Diagnosed


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--each", is_flag=True, help="Each file of a folder is a job; files of its ranks stay one.")
@click.option("--telemetry", type=ANY_PATH, help="Samples of the node, or a run's folder.")
@click.option("--flight-recorder", type=ANY_PATH, help="NCCL flight-recorder dumps, as JSON.")
@click.option("--job", "job_id", help="The job's id in the lake. What the log says of its job is a claim.")
@click.option("--cluster", "cluster_id", help="The job's cluster in the lake.")
@click.option("--run", type=click.IntRange(1), help="Which run of the log, from 1. [default: the last one]")
@click.option("--time-zone", default="UTC", show_default=True, help="Of times in the log that name none.")
@click.option("--follow", is_flag=True, help="Watch the log grow; report a failure, a stall or a NaN loss.")
@click.option("--until-end", is_flag=True, help="With --follow: stop once the job failed or finished.")
@click.option("--stall-after", type=click.FloatRange(1), help="With --follow: seconds. [default: learned from the log]")
@click.option("--show-prompt", is_flag=True, help="Print what a configured model would be sent, and send nothing.")
@click.option("--no-record", is_flag=True, help="Leave nothing in the lake.")
@lake_option
@json_option
def command(
    logs: tuple[Path, ...],
    each: bool,
    telemetry: Path | None,
    flight_recorder: Path | None,
    job_id: str | None,
    cluster_id: str | None,
    run: int | None,
    time_zone: str,
    follow: bool,
    until_end: bool,
    stall_after: float | None,
    show_prompt: bool,
    no_record: bool,
    lake: Path | None,
    as_json: bool,
) -> None:
    """Say why a job died: the root cause, the lines that prove it, where it began, and what to do.

    LOG is a file (plain, gzip or zstd), a folder of the ranks' files, or - for stdin. Of several logs, of a folder of
    files of several Slurm jobs, and with --each, it prints a row for each job and a summary by cause.

    Nothing leaves this machine unless a model is configured. If there is a lake, its telemetry and job tables are
    consulted, and the diagnosis is recorded in it.

    \b
    Example:  gpulake diagnose slurm-4711.out --telemetry runs/night1/node7
    Example:  gpulake diagnose logs/*.out
    """
    from gpulake.diagnose.diagnoser import DiagnosisRequest

    log = logs[0]
    flow = Flow(settings(lake=lake))
    if lake is not None:
        flow.lake.open()
    request = DiagnosisRequest(
        log, telemetry, flight_recorder, job_id, cluster_id, run, time_zone, is_recorded=not no_record
    )
    if len(logs) > 1 or each or (log.is_dir() and _holds_many(log)):
        if telemetry or flight_recorder or job_id or run or follow or show_prompt:
            raise UsageError("this option is of one job", "give one log, or leave it out")
        _print_many(flow, logs, request, as_json)
    elif follow:
        _follow(log, flow.follow(request, stall_after, until_end), as_json)
    elif show_prompt:
        click.echo(flow.prompt(request))
    else:
        with progress_bar(as_json) as flow.report:
            answer = flow.diagnose(request)
        if as_json:
            click.echo(json.dumps({**answer.diagnosis.as_document(), "notes": answer.notes}, indent=2))
        else:
            print_card(answer.diagnosis, answer.context, answer.notes, screen())


def _holds_many(folder: Path) -> bool:
    from gpulake.diagnose.many import holds_many_jobs

    return holds_many_jobs(folder)


def _print_many(flow: Flow, logs: Sequence[Path], request: DiagnosisRequest, as_json: bool) -> None:
    from gpulake.diagnose.many import by_cause, job_logs

    with progress_bar(as_json) as flow.report:
        found, note = flow.diagnose_many(job_logs(logs), request)
    causes = by_cause(found)
    if as_json:
        jobs = [
            {"log": one.log.name, **one.diagnosis.as_document(), "notes": [one.note] * bool(one.note)} for one in found
        ]
        click.echo(
            json.dumps({"jobs": jobs, "causes": [asdict(cause) for cause in causes], "notes": [note] * bool(note)})
        )
        return
    columns = ("log", "verdict", "reason", "where", "action", "GPU-hours lost", "cause")
    print_table(columns, [_row(one) for one in found])
    hours = [(cause.reason, cause.jobs, _hours(cause.gpu_hours_lost)) for cause in causes]
    print_table(("reason", "jobs", "GPU-hours lost"), hours)
    for text in (note, *(f"{one.log.name}: {one.note}" for one in found if one.note)):
        if text:
            click.echo(label(text), err=True)


def _row(one: Diagnosed) -> tuple[object, ...]:
    found = one.diagnosis
    where = found.node or (f"rank {found.rank}" if found.rank is not None else "")
    hours = _hours(found.gpu_hours_lost)
    return one.log.name, found.verdict, found.reason, where, found.recovery.action, hours, found.cause


def _hours(value: float | None) -> float | str:
    return round(value, 1) if value is not None else ""


def _follow(log: Path, notices: Iterator[Notice], as_json: bool) -> None:
    if str(log) == "-":
        raise UsageError("standard input cannot be followed", "name the log, or diagnose it without --follow")
    # Each file of a folder stays open, so that the end of a file that is moved away is still read.
    _, most = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (most, most))
    if not log.exists():
        click.echo(f"waiting for {label(log)}", err=True)
    for notice in notices:
        if as_json:
            click.echo(json.dumps(_document(notice)))
        else:
            _print(notice)


def _document(notice: Notice) -> dict[str, object]:
    return {
        "kind": notice.kind,
        "noticed_at": notice.noticed_at.isoformat(),
        "text": redacted(notice.text),
        "line": notice.quote.line if notice.quote else None,
        "diagnosis": notice.diagnosis.as_document() if notice.diagnosis else None,
    }


def _print(notice: Notice) -> None:
    at = f"{notice.noticed_at:%Y-%m-%d %H:%M:%S} UTC  {notice.kind}"
    if notice.answer:
        click.secho(at, bold=True)
        print_card(notice.answer.diagnosis, notice.answer.context, notice.answer.notes, screen())
        return
    where = f" (line {notice.quote.line:,})" if notice.quote else ""
    click.secho(f"{at}: {label(redacted(notice.text))}{where}", bold=True)
