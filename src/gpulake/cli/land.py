"""gpulake land: raw files into bronze, and out of it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._landed import fail_if_any_failed, print_landed
from gpulake.cli._options import ANY_PATH, quiet_option
from gpulake.cli._output import print_json, print_table, remark
from gpulake.cli._progress import progress_bar
from gpulake.core.errors import UsageError
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.core.types import Landing
    from gpulake.lake.undo import Undone


@click.command()
@click.argument("paths", nargs=-1, type=ANY_PATH)
@click.option(
    "--replace", "is_replacing", is_flag=True, help="Replace what landed under the same name, instead of adding to it."
)
@click.option("--job", metavar="ID", help="Of metrics of a training run: the job of the scheduler that it was.")
@click.option(
    "--run", metavar="NAME", help="Of metrics of a training run: its name, instead of its folder's or file's."
)
@click.option("--undo", multiple=True, metavar="ID|PATH", help="Take this landing back; may be repeated.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="With --undo: only say what would be taken back.")
@click.option("--list", "is_list", is_flag=True, help="List the landings in force, with their ids.")
@quiet_option
@flow_options
def command(
    paths: tuple[Path, ...],
    is_replacing: bool,
    job: str | None,
    run: str | None,
    undo: tuple[str, ...],
    is_dry_run: bool,
    is_list: bool,
    flow: Flow,
    as_json: bool,
) -> None:
    """Land trace files in the lake's bronze tables, or take landings back.

    PATHS are files or folders: CSV with or without a header row, gzip, zstd, tar archives and split parts. The same
    content lands once. A file name that comes again with other content adds its rows, so that snapshots named after a
    host add up; a file that grew takes its own place, and so does an inventory, which lists all there is; --replace
    replaces. Rows that do not parse, and impossible values, go to the table quarantine. A file that cannot be read
    costs only itself: the others land, and the exit code is 3. What to print with Slurm's sacct is in docs/slurm.md.

    --undo takes a landing back, with its quarantined rows: what it replaced, if anything, is in force again. A path
    means the last landing of each file. The history stays, and the same file can land again.

    \b
    Example:  gpulake land data_raw/
              gpulake land runs/night1/events.out.tfevents.1790000000.n7.4711.0 --job 4711
              gpulake land --undo data_raw/pai_machine_spec.csv
    """
    if bool(paths) + bool(undo) + is_list != 1 or (is_dry_run and not undo) or (is_replacing and not paths):
        hint = "give one of them; --dry-run is for --undo, --replace for PATHS"
        raise UsageError("PATHS, --undo and --list exclude each other", hint)
    if is_list:
        _list(flow, as_json)
    elif undo:
        _undo(flow, undo, is_dry_run, as_json)
    else:
        _land(flow, paths, is_replacing, {"job": job, "run": run}, as_json)


def _land(flow: Flow, paths: tuple[Path, ...], is_replacing: bool, named: dict[str, str | None], as_json: bool) -> None:
    with progress_bar(is_silent=as_json) as flow.report:
        result = flow.land(paths, is_replacing, {name: value for name, value in named.items() if value is not None})
    if as_json:
        landings = [_record(landing) for landing in result.landings]
        print_json({**asdict(result), "landings": landings, "rows_quarantined": result.rows_quarantined})
    else:
        rows = [(*_counts(landing), _state(landing), landing.source) for landing in result.landings]
        print_table(("table", "rows landed", "quarantined", "version", "", "source"), rows)
        print_landed(result)
        remark("Next: gpulake build")
    fail_if_any_failed(result)


def _undo(flow: Flow, words: Sequence[str], is_dry_run: bool, as_json: bool) -> None:
    undone = flow.undo(words, is_dry_run)
    if as_json:
        print_json({"is_dry_run": is_dry_run, "undone": [_undone_record(one) for one in undone]})
        return
    rows = [
        (
            one.landing.landing_id,
            one.landing.table,
            one.landing.rows_landed,
            "" if is_dry_run else ", ".join(f"version {held.version}" for held in one.held) or "nothing",
            one.landing.source,
        )
        for one in undone
    ]
    print_table(("id", "table", "rows", "in force now", "source"), rows)
    word = "nothing was done; take them back without --dry-run" if is_dry_run else "Next: gpulake build"
    remark(word)


def _list(flow: Flow, as_json: bool) -> None:
    held = flow.lake.open().held_landings()
    held.sort(key=lambda landing: (landing.landed_at, landing.table, landing.source))
    if as_json:
        print_json([_record(landing) for landing in held])
        return
    rows = [
        (landing.landing_id, f"{landing.landed_at:%Y-%m-%d %H:%M:%S}", *_counts(landing), landing.source)
        for landing in held
    ]
    print_table(("id", "landed (UTC)", "table", "rows landed", "quarantined", "version", "source"), rows)


def _state(landing: Landing) -> str:
    if not landing.is_new:
        return "had landed"
    return f"replaces version {', '.join(map(str, landing.replaces))}" if landing.replaces else "new"


def _counts(landing: Landing) -> tuple[str, int, int, int]:
    return landing.table, landing.rows_landed, landing.rows_quarantined, landing.version


def _record(landing: Landing) -> dict[str, object]:
    return {"landing_id": landing.landing_id, **asdict(landing)}


def _undone_record(undone: Undone) -> dict[str, object]:
    return {"landing": _record(undone.landing), "in_force": [_record(held) for held in undone.held]}
