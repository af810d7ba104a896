"""gpulake restore: a lake from a backup."""

from __future__ import annotations

from pathlib import Path

import click

from gpulake.cli._options import FOLDER, config_option, settings
from gpulake.flow import Flow
from gpulake.flow.storing import restore


@click.command()
@click.argument("folder", type=FOLDER)
@click.argument("lake", type=FOLDER)
@click.option(
    "--snapshot", default="", metavar="ID", help="Which one, as backup --check lists them. [default: the last]"
)
@config_option
def command(folder: Path, lake: Path, snapshot: str) -> None:
    """Make a lake from a backup, in a new or an empty folder.

    Every content is compared with its hash. The lake is there once all of it is; damage is an error that names the
    file, and leaves nothing behind.

    \b
    Example:  gpulake restore /mnt/backup/lake /srv/gpulake/lake
    """
    found = restore(Flow(settings(lake=lake)), folder, snapshot)
    click.echo(
        f"Restored {len(found.files):,} files, {found.bytes:,} bytes, of snapshot {found.snapshot_id} to {lake}."
    )
