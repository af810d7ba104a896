"""gpulake rules test: which rules match which lines."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.core.errors import InputError, UsageError

MOST_LINE_BYTES = 1 << 20  # what is looked at of a line
_ENDINGS = (".log", ".txt", ".out", ".err", ".gz", ".toml")


@click.command()
@click.argument("source", metavar="PATH-or-TEXT")
@click.option(
    "--rules",
    "rules_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of rules to try beside those in force.",
)
@lake_option
@json_option
def command(source: str, rules_path: Path | None, lake: Path | None, as_json: bool) -> None:
    """Show which rules match which lines of a file, of a text, or of what is piped in (-).

    \b
    Example:  gpulake rules test "RuntimeError: CUDA error: out of memory"
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import say
    from gpulake.cli.rules.check import read_file
    from gpulake.core.words import label
    from gpulake.diagnose.rulebook.book import Rulebook
    from gpulake.flow.learning import rules_in_force
    from gpulake.lake import Lake

    own = read_file(rules_path) if rules_path else []
    names = {rule.name for rule in own}
    known = (rule for rule in rules_in_force(Lake(settings(lake=lake)), say) if rule.name not in names)
    book = Rulebook((*known, *own))
    found = ((number, text, hits) for number, text in _lines(source) if (hits := book.hits(text, number)))
    if as_json:
        print_json(
            [
                {
                    "line": number,
                    "text": text,
                    "rules": [
                        {"rule": hit.rule.name, "role": hit.rule.role, "reason": hit.rule.reason, "groups": hit.words}
                        for hit in hits
                    ],
                }
                for number, text, hits in found
            ]
        )
        return
    lines = 0
    for number, text, hits in found:
        lines += 1
        click.secho(f"{number}: {label(text, 300)}", bold=True)
        for hit in hits:
            words = ", ".join(f"{name}={label(word, 60)}" for name, word in hit.groups)
            click.echo(
                f"    {hit.rule.name} ({hit.rule.role}{', ' + hit.rule.reason if hit.rule.reason else ''}) {words}"
            )
    if not lines:
        click.echo("no rule matches", err=True)


def _lines(source: str) -> Iterator[tuple[int, str]]:
    path = Path(source)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a text that is no path at all
        is_file = False
    if source == "-":
        yield from _decoded(sys.stdin.buffer)
    elif is_file:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
                yield from _decoded(stream)  # type: ignore[arg-type]
        except (OSError, EOFError) as error:
            raise InputError(f"cannot read {path}: {error}", "name a file that can be read") from error
    elif not any(map(str.isspace, source)) and ("/" in source or source.endswith(_ENDINGS)):
        raise UsageError(
            f"no file {source!r}", "name a file that is there; a text that looks like one goes in by a pipe"
        )
    else:
        yield from enumerate(source.encode(errors="replace").decode().splitlines(), 1)


def _decoded(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Line by line; of a very long one its beginning."""
    number = 0
    is_begin = True
    while piece := stream.readline(MOST_LINE_BYTES):
        if is_begin:
            number += 1
            yield number, piece.decode(errors="replace").rstrip("\r\n")
        is_begin = piece.endswith(b"\n")
