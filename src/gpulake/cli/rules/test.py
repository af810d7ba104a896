"""gpulake rules test: which rules match which lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli.rules._showing import warn
from gpulake.cli.rules.check import read_file
from gpulake.core.errors import UsageError
from gpulake.core.words import label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.rulebook.rule import Hit

_ENDINGS = (".log", ".txt", ".out", ".err", ".gz", ".zst", ".toml")


@click.command()
@click.argument("source", metavar="PATH-or-TEXT")
@click.option(
    "--rules",
    "rules_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of rules to try together with those in force.",
)
@flow_options
def command(source: str, rules_path: Path | None, flow: Flow, as_json: bool) -> None:
    """Show which rules match which lines of a log (a file, a folder, or - for stdin), or of a text.

    \b
    Example:  gpulake rules test "RuntimeError: CUDA error: out of memory"
              gpulake rules test slurm-4711.out --rules our_rules.toml
    """
    from gpulake.diagnose.learn.proposing import rules_in_force
    from gpulake.diagnose.rulebook.book import Rulebook

    tried = read_file(rules_path) if rules_path else []
    names = {rule.name for rule in tried}
    known = (rule for rule in rules_in_force(flow.lake, warn) if rule.name not in names)
    book = Rulebook((*known, *tried))
    found = ((where, text, hits) for where, text in _lines(source) if (hits := book.hits(text, where[1])))
    if as_json:
        print_json([_document(*one) for one in found])
        return
    lines = 0
    for where, text, hits in found:
        lines += 1
        _print(where, text, hits)
    if not lines:
        click.echo("no rule matches", err=True)


def _document(where: tuple[str, int], text: str, hits: list[Hit]) -> dict[str, Any]:
    file, number = where
    rules = [
        {"rule": hit.rule.name, "role": hit.rule.role, "reason": hit.rule.reason, "groups": hit.words} for hit in hits
    ]
    return {**({"file": file} if file else {}), "line": number, "text": text, "rules": rules}


def _print(where: tuple[str, int], text: str, hits: list[Hit]) -> None:
    file, number = where
    click.secho(f"{label(file, 200)}{':' if file else ''}{number}: {label(text, 300)}", bold=True)
    for hit in hits:
        words = ", ".join(f"{name}={label(word, 60)}" for name, word in hit.groups)
        reason = f", {hit.rule.reason}" if hit.rule.reason else ""
        click.echo(f"    {hit.rule.name} ({hit.rule.role}{reason}) {words}".rstrip())


def _lines(source: str) -> Iterator[tuple[tuple[str, int], str]]:
    """Each with its file, where there are several, and its number."""
    from gpulake.diagnose.logs.reading import STANDARD_INPUT, open_logs

    if source != STANDARD_INPUT and not _is_there(source):
        if not any(map(str.isspace, source)) and ("/" in source or source.endswith(_ENDINGS)):
            hint = "name an existing file; pipe in a text that looks like a path"
            raise UsageError(f"no file {source!r}", hint)
        for number, text in enumerate(source.encode(errors="replace").decode().splitlines(), 1):
            yield ("", number), text
        return
    logs = open_logs(source)
    for file in logs.files:
        for number, text in file.lines():
            yield (file.name if logs.is_folder else "", number), text
        if file.trouble:
            warn(file.trouble)


def _is_there(source: str) -> bool:
    try:
        return bool(source) and Path(source).exists()
    except (OSError, ValueError):  # a text that cannot be a path
        return False
