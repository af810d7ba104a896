"""What became of the files of a command: said after landing and after a refresh, and by the exit code."""

from __future__ import annotations

import click

from gpulake.cli._output import remark
from gpulake.core.types import LandResult


def print_landed(result: LandResult) -> None:
    """On stderr: what was skipped, what failed and why, and how many rows are in quarantine, also if none are."""
    for source in result.unknown:
        click.echo(f"not recognised, skipped: {source}", err=True)
    hints = [one.hint for one in result.failed]
    for place, one in enumerate(result.failed):  # a hint of several files is printed once, after the last of them
        is_last = one.hint and one.hint not in hints[place + 1 :]
        click.echo(f"failed: {one.reason}" + (f" ({one.hint})" if is_last else ""), err=True)
    new = [landing for landing in result.landings if landing.is_new]
    rows = sum(landing.rows_read for landing in result.landings)
    counts = {
        "landed": len(new),
        "had landed": len(result.landings) - len(new),
        "not recognised": len(result.unknown),
        "failed": len(result.failed),
    }
    files = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    words = f"files: {files}; rows in quarantine: {result.rows_quarantined:,} of {rows:,}"
    # What an earlier run has quarantined was said then: cron would mail it again with every run.
    is_news = any(landing.rows_quarantined for landing in new)
    remark(words, is_always=is_news)
    if result.rows_quarantined:
        remark("See them: gpulake sql 'from quarantine'", is_always=is_news)


def fail_if_any_failed(result: LandResult) -> None:
    """The last line and the exit code are about the files that failed."""
    from gpulake.land.landing import failure

    if result.failed:
        raise failure(result.failed, len(result.failed) + len(result.landings) + len(result.unknown))
