"""gpulake collect bundle"""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Write the collector as one file.")
@click.argument("out", metavar="OUT.pyz", type=click.Path(path_type=Path, dir_okay=False))
def command(out: Path) -> None:
    """Write the collector as one file that runs on a bare node with Python 3.11 or newer, and nothing else.

    The same version makes the same bytes. On the node: python3 OUT.pyz start.

    \b
    Example: gpulake collect bundle collect.pyz
    """
    from gpulake.collect.bundle import write_bundle

    others = write_bundle(out)
    click.echo(f"{out}: {out.stat().st_size:,} bytes, with {', '.join(others)}")
