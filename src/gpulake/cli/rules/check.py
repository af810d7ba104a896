"""gpulake rules check: is a file of rules fit to be used?"""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._options import json_option, lake_option, settings
from gpulake.core.errors import UsageError

if TYPE_CHECKING:
    from gpulake.diagnose.rulebook.rule import Rule


@click.command()
@click.argument("path", metavar="FILE.toml", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@lake_option
@json_option
def command(path: Path, lake: Path | None, as_json: bool) -> None:
    """Hold the rules of a TOML file to every check that a learned rule must pass.

    They are tried on healthy logs, on past incidents of the lake, and on the examples of all other rules.

    \b
    Example:  gpulake rules check our_rules.toml
    """
    from gpulake.cli._output import print_json
    from gpulake.cli.rules._showing import print_checks
    from gpulake.core.words import count, label
    from gpulake.diagnose.learn.candidates import Candidate
    from gpulake.diagnose.learn.trials import failures
    from gpulake.flow.learning import examined_together
    from gpulake.lake import Lake

    rules = read_file(path)
    outcome = examined_together(Lake(settings(lake=lake)), rules)
    wrong = [rule.name for rule, checks in outcome if failures(checks)]
    if as_json:
        print_json(
            [
                {
                    "rule": rule.name,
                    "passed": not failures(checks),
                    "is_silencing": Candidate(rule).is_silencing,
                    "checks": [asdict(check) for check in checks],
                }
                for rule, checks in outcome
            ]
        )
    else:
        for rule, checks in outcome:
            click.secho(label(rule.name), bold=True)
            print_checks(checks)
    if wrong:
        named = ", ".join(label(name, 80) for name in wrong[:5])
        raise UsageError(f"{count(len(wrong), 'rule')} of {len(rules)} failed: {named}", "see docs/learn.md")


def read_file(path: Path) -> list[Rule]:
    """The rules of a file that anybody may have written."""
    from gpulake.core.words import label
    from gpulake.diagnose.learn.definitions import rule_of

    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("rule", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {label(error, 300)}", "correct the line that it names") from error
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path} has no [[rule]]", "see docs/learn.md")
    rules = []
    for entry in entries:
        try:
            rules.append(rule_of(entry, path.stem))
        except (ValueError, TypeError) as error:
            named = label(entry.get("name", "without a name"), 80)
            raise UsageError(f"rule {named} of {path}: {label(error, 300)}", "see docs/learn.md") from error
    names = [rule.name for rule in rules]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two rules of {path} are named {label(min(twice), 80)!r}", "give each a name of its own")
    return rules
