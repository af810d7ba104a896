"""gpulake rules check: can a file of rules be used?"""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json
from gpulake.cli.rules._showing import print_checks
from gpulake.core.errors import UsageError
from gpulake.core.words import count, label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.rulebook.rule import Rule


@click.command()
@click.argument("path", metavar="FILE.toml", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@flow_options
def command(path: Path, flow: Flow, as_json: bool) -> None:
    """Run every check that a learned rule must pass on the rules of a TOML file.

    They are tried on healthy logs, on past incidents of the lake, and on the examples of all other rules.

    \b
    Example:  gpulake rules check our_rules.toml
    """
    from gpulake.diagnose.learn.candidates import Candidate
    from gpulake.diagnose.learn.proposing import examined_together
    from gpulake.diagnose.learn.trials import failures

    rules = read_file(path)
    outcome = examined_together(flow.lake, rules)
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
    """The rules of a file, which is not trusted."""
    from gpulake.diagnose.learn.definitions import rule_of

    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("rule", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {label(error, 300)}", "correct that line") from error
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
        raise UsageError(f"two rules of {path} are named {label(min(twice), 80)!r}", "give each its own name")
    return rules
