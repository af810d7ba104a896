"""gpulake fetch: bring a published data set to this machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._options import FOLDER, json_option
from gpulake.cli._output import print_json
from gpulake.cli._progress import progress_bar
from gpulake.core.errors import FetchError

if TYPE_CHECKING:
    from gpulake.land.catalogue import DataSet
    from gpulake.land.fetch import FileState


@click.command()
@click.argument("name", metavar="[DATA_SET]", required=False)
@click.option("--out", type=FOLDER, help="The folder. [default: ./DATA_SET]")
@click.option("--table", "tables", metavar="NAME", multiple=True, help="Only this table; may be repeated.")
@click.option("--url", metavar="BASE", help="A mirror: the URL of the folder that has the files, whole or in pieces.")
@click.option("--parallel", type=click.IntRange(1, 32), default=4, show_default=True, help="Files at a time.")
@click.option("--verify-only", is_flag=True, help="Download nothing; check what is there, extracted .csv files too.")
@click.option(
    "--catalogue",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Your TOML file of data sets, instead of the packaged one.",
)
@json_option
def command(
    name: str | None,
    out: Path | None,
    tables: tuple[str, ...],
    url: str | None,
    parallel: int,
    verify_only: bool,
    catalogue: Path | None,
    as_json: bool,
) -> None:
    """Download a published data set and verify it; without DATA_SET, list what there is.

    An interrupted download is resumed, and a file that is already there and correct is not downloaded again. A mirror
    may hold a file in pieces named NAME.partaa, NAME.partab, ...: they are joined. A file gets its name only once its
    SHA-256 is the published one.

    With --verify-only the command fails if a file is wrong, or if a table is there neither packed nor extracted.

    \b
    Example:
      gpulake fetch
      gpulake fetch pai --table pai_machine_spec --out data/pai
      gpulake fetch pai --out data/pai --verify-only
    """
    from gpulake.land.catalogue import PACKAGED, find_data_set, load_catalogue
    from gpulake.land.fetch import fetch, verify

    known = load_catalogue(catalogue or PACKAGED)
    if name is None:
        _print_catalogue(known, as_json)
        return
    data_set = find_data_set(known, name)
    folder = out or Path(name)
    with progress_bar() as report:
        if verify_only:
            states = verify(data_set, folder, tables=tables, report=report)
        else:
            states = fetch(data_set, folder, tables=tables, url=url, parallel=parallel, report=report)
    _print_states(data_set, folder, states, as_json)
    if verify_only:
        _fail_unless_usable(data_set, states)
    elif not as_json:
        click.echo(f"next: {_next_command(folder)}", err=True)


def _print_catalogue(known: dict[str, DataSet], as_json: bool) -> None:
    if as_json:
        names = ("name", "title", "licence", "source", "download_bytes", "tables")
        print_json([{name: getattr(data_set, name) for name in names} for data_set in known.values()])
        return
    for data_set in known.values():
        size = f"{data_set.download_bytes / 1e6:,.1f} MB"
        click.echo(f"{data_set.name}  {data_set.title}, {size}, {data_set.licence}, {data_set.source}")
        for table in data_set.tables:
            click.echo(f"  {table}")


def _print_states(data_set: DataSet, folder: Path, states: list[FileState], as_json: bool) -> None:
    if as_json:
        files = [
            {"name": state.name, "table": state.table, "path": str(folder / state.name), "status": state.status}
            | ({} if state.got is None else {"got_sha256": state.got})
            for state in states
        ]
        print_json({"data_set": data_set.name, "folder": str(folder), "files": files, "next": _next_command(folder)})
        return
    for state in states:
        click.echo(f"{state.status:<8} {folder / state.name}")


def _next_command(folder: Path) -> str:
    return f"gpulake land {shlex.quote(str(folder))}"


def _fail_unless_usable(data_set: DataSet, states: list[FileState]) -> None:
    sums = {file.name: file.sha256 for file in data_set.files}
    wrong = [
        f"{state.name} (expected {sums[state.name]}, got {state.got})" for state in states if state.got is not None
    ]
    if wrong:
        raise FetchError(
            f"{len(wrong)} of {len(states)} files are not as published: {'; '.join(wrong)}",
            "fetch replaces archives and headers; a .csv that was edited, if only by a header line, no longer matches",
        )
    headers = {file.name for file in data_set.files if file.text is not None}
    found = {state.table for state in states if state.status == "ok" and state.name not in headers}
    absent = sorted({state.table for state in states} - found)
    if absent:
        raise FetchError(f"no data of {', '.join(absent)}", f"gpulake fetch {data_set.name} brings what is missing")
