"""A progress bar on a terminal, on stderr: stdout is for data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gpulake.cli._options import is_quiet
from gpulake.core.progress import Report, silent
from gpulake.core.words import label


@contextmanager
def progress_bar(is_silent: bool = False) -> Iterator[Report]:
    """Yields report(what, share): what is being done, and how much of it, from 0 to 1."""
    if is_silent or is_quiet() or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    # File names are not trusted: no markup, and no control characters.
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda what, share: bar.update(task, description=label(what), completed=share)
