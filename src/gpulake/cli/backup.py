"""gpulake backup: a copy of the lake that can be restored."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import FOLDER
from gpulake.cli._output import print_json, print_table
from gpulake.flow import Flow
from gpulake.flow.storing import back_up, check_backup


@click.command()
@click.argument("folder", type=FOLDER)
@click.option("--keep", type=click.IntRange(1), help="Keep so many snapshots, and remove older ones. [default: all]")
@click.option("--check", "is_check", is_flag=True, help="Take none; read all contents against their hashes.")
@flow_options
def command(folder: Path, keep: int | None, is_check: bool, flow: Flow, as_json: bool) -> None:
    """Copy the lake into a folder, only what is new since the last time.

    Readers, landings and builds go on meanwhile: the snapshot has a whole build, all that had landed when the build was
    listed, and all rows of the journal that were acknowledged. A content is stored once for all snapshots. --check
    lists the snapshots after every content was compared with its hash; damage is an error that names the file.

    \b
    Example:  gpulake backup /mnt/backup/lake --keep 30
              gpulake backup /mnt/backup/lake --check
    """
    if is_check:
        snapshots = check_backup(folder)
        rows = [(one.snapshot_id, one.taken_at[:19], len(one.files), one.bytes) for one in snapshots]
        if as_json:
            print_json([dict(zip(("snapshot_id", "taken_at", "files", "bytes"), row, strict=True)) for row in rows])
        else:
            print_table(("snapshot", "taken (UTC)", "files", "bytes"), rows)
        return
    result = back_up(flow, folder, keep or 0)
    if as_json:
        print_json(asdict(result))
        return
    click.echo(
        f"Snapshot {result.snapshot_id}: {result.files:,} files, {result.bytes:,} bytes;"
        f" {result.new_files:,} files, {result.new_bytes:,} bytes copied."
    )
