"""gpulake rules: look at the rules of the diagnosis, try them, and review what was learned."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._learned_rules import (
    learned_document,
    print_checks,
    print_definition,
    print_learned,
    print_proposed,
    propose,
    retire,
    review,
    warn,
)
from gpulake.cli._output import print_json, print_table
from gpulake.cli._verbs import Group
from gpulake.cli._words import by_option
from gpulake.core.errors import UsageError, choice_hint
from gpulake.core.words import count, label
from gpulake.flow import Flow

if TYPE_CHECKING:
    from gpulake.diagnose.rulebook.rule import Hit, Rule

_ENDINGS = (".log", ".txt", ".out", ".err", ".gz", ".zst", ".toml")


@click.group(cls=Group)
def command() -> None:
    """Look at the rules of the diagnosis, try them, and review what was learned."""


@command.command("list")
@click.option("--family", help="Only the rules of this file, such as gpu_memory.")
@click.option("--learned", "is_learned", is_flag=True, help="Learned rules in every state, with their ids.")
@flow_options
def list_rules(family: str | None, is_learned: bool, flow: Flow, as_json: bool) -> None:
    """List the rules in force: the shipped ones, and learned ones that were approved.

    \b
    Example:  gpulake rules list --family gpu_memory
    """
    from gpulake.diagnose.learn.definitions import definition_of
    from gpulake.diagnose.learn.proposing import everything_learned, rules_in_force

    if is_learned:
        known = everything_learned(flow.lake)
        if as_json:
            print_json([learned_document(one) for one in known])
            return
        if not known:
            click.echo("nothing has been learned yet; propose a rule: gpulake rules propose --incident ID", err=True)
            return
        rows = [
            (
                *(one.rule_id, one.state, one.kind, label(one.name)),
                label(one.definition.get("reason", ""), 40),
                label(one.proposed_by, 40),
            )
            for one in known
        ]
        print_table(("id", "state", "kind", "name", "reason", "proposed by"), rows)
        return
    rules = rules_in_force(flow.lake, warn)
    if family is not None:
        families = {rule.family for rule in rules}
        if family not in families:
            raise UsageError(f"no rules of family {family!r}", choice_hint(family, families))
        rules = tuple(rule for rule in rules if rule.family == family)
    if as_json:
        print_json([{**definition_of(rule), "family": rule.family, "category": rule.category} for rule in rules])
        return
    columns = ("rule", "family", "role", "reason", "recovery", "cause")
    print_table(
        columns,
        [
            (rule.name, rule.family, rule.role, rule.reason, rule.recovery if rule.reason else "", label(rule.cause))
            for rule in rules
        ],
    )


@command.command("show")
@click.argument("name")
@flow_options
def show(name: str, flow: Flow, as_json: bool) -> None:
    """Show a rule by its name; a learned one (also by its id) with its origin and its checks.

    \b
    Example:  gpulake rules show cuda_out_of_memory
    """
    from gpulake.diagnose.learn.definitions import definition_of
    from gpulake.diagnose.learn.proposing import everything_learned, the_learned
    from gpulake.diagnose.rulebook.book import shipped_rules

    shipped = {rule.name: rule for rule in shipped_rules()}
    if rule := shipped.get(name):
        document = {**definition_of(rule), "family": rule.family, "category": rule.category}
        if as_json:
            print_json(document)
        else:
            click.secho(rule.name, bold=True)
            print_definition(document)
        return
    learned = everything_learned(flow.lake)
    if not any(name and (one.name.startswith(name) or one.rule_id.startswith(name)) for one in learned):
        raise UsageError(f"no rule named {name!r}", choice_hint(name, [*shipped, *(one.name for one in learned)]))
    one = the_learned(flow.lake, name)
    if as_json:
        print_json(learned_document(one))
    else:
        print_learned(one)


@command.command("check")
@click.argument("path", metavar="FILE.toml", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@flow_options
def check(path: Path, flow: Flow, as_json: bool) -> None:
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


@command.command("import")
@click.argument("path", metavar="FILE.toml", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--note", default="", help="What the reviewer should know.")
@by_option
@flow_options
def import_file(path: Path, note: str, by: str, flow: Flow, as_json: bool) -> None:
    """Propose the rules of a TOML file, such as another site's. Each has no effect until a person approves it.

    A rule that fails a check, or is there already, is refused with the reason; the others become candidates.

    \b
    Example:  gpulake rules import our_rules.toml --note "from the other site"
    """
    from gpulake.diagnose.learn.proposing import import_rules

    rules = read_file(path)
    with flow.changing_rules():
        made, refused = import_rules(flow.lake, flow.clock, rules, by, note or f"imported from {path.name}")
    print_proposed(made, refused, as_json, "no rule became a candidate")
    if refused and not made:
        raise UsageError(f"no rule of {path} could be imported", "see why with: gpulake rules check FILE")


@command.command("export")
@flow_options
def export(flow: Flow, as_json: bool) -> None:
    """Print the approved rules as TOML, with paths, hosts, addresses and quoted names of their examples replaced.

    \b
    Example:  gpulake rules export > our_rules.toml
    """
    from gpulake.diagnose.learn.definitions import as_toml
    from gpulake.diagnose.learn.proposing import shareable

    definitions = shareable(flow.lake.open(), warn)
    if as_json:
        print_json(definitions)
    elif not definitions:
        click.echo("no learned rule was approved yet; see: gpulake rules review", err=True)
    else:
        click.echo(
            as_toml(definitions, "Learned rules, as approved. Check them with: gpulake rules check FILE"), nl=False
        )


@command.command("test")
@click.argument("source", metavar="PATH-or-TEXT")
@click.option(
    "--rules",
    "rules_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file of rules to try together with those in force.",
)
@flow_options
def test_rules(source: str, rules_path: Path | None, flow: Flow, as_json: bool) -> None:
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
        print_json([_hits_document(*one) for one in found])
        return
    lines = 0
    for where, text, hits in found:
        lines += 1
        _print_hits(where, text, hits)
    if not lines:
        click.echo("no rule matches", err=True)


def _hits_document(where: tuple[str, int], text: str, hits: list[Hit]) -> dict[str, Any]:
    file, number = where
    rules = [
        {"rule": hit.rule.name, "role": hit.rule.role, "reason": hit.rule.reason, "groups": hit.words} for hit in hits
    ]
    return {**({"file": file} if file else {}), "line": number, "text": text, "rules": rules}


def _print_hits(where: tuple[str, int], text: str, hits: list[Hit]) -> None:
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


for _one in (propose, retire, review):
    command.add_command(_one)
