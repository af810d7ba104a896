"""Rules as TOML: read from untrusted input, and written to be shared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from gpulake.diagnose.rulebook.rule import Rule, read_rule

LEARNED = "learned"  # the family of learned rules


def definition_of(rule: Rule) -> dict[str, Any]:
    """The keys of its TOML, without defaults."""
    kept = {}
    for setting in fields(Rule):
        value = getattr(rule, setting.name)
        if setting.name != "family" and value != setting.default:
            kept[setting.name] = list(value) if isinstance(value, tuple) else value
    return kept


def rule_of(definition: dict[str, Any], family: str = LEARNED) -> Rule:
    """Reads an untrusted definition. Raises ValueError with what is wrong with it."""
    for setting in fields(Rule):
        value = definition.get(setting.name, setting.default)
        is_list = setting.name in ("matches", "ignores")
        if is_list and setting.name in definition and not _is_texts(value):
            raise ValueError(f"{setting.name} is not a list of texts")
        if setting.name in definition and not is_list:
            kind = int if setting.name == "strength" else str
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{setting.name} is {value!r}, which is of the wrong type")
    return read_rule(definition, family)


def as_toml(definitions: Iterable[dict[str, Any]], heading: str) -> str:
    """A file of rules, as diagnose/rules has them."""
    return "\n".join([f"# {heading}", *map(_table, definitions)])


def _table(definition: dict[str, Any]) -> str:
    return "\n".join(["", "[[rule]]", *(f"{key} = {_value(value)}" for key, value in definition.items()), ""])


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    if "\\" in value and "'" not in value and value.isprintable():
        return f"'{value}'"  # literal: easier to read for a pattern
    # TOML's strings are JSON's, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
