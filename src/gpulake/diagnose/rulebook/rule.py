"""A rule: a pattern, what a line that it matches means, and lines that it must and must not match."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from gpulake.core.diagnosis import CATEGORY_OF, Action, Category
from gpulake.core.errors import choice_hint

Role = Literal[
    "cause",  # what a job dies of, by itself
    "cascade",  # mostly what other processes see when one dies: a cause only where nothing comes before it
    "wrapper",  # a launcher's report of another process's failure
    "teardown",  # noise of processes that are ending anyway
    "clue",  # no proof alone, but strengthens a cause (an Xid beside a CUDA error)
    "success",  # the job says that it is done
    "start",  # a run begins
    "progress",  # a step, an epoch, a checkpoint
    "noise",  # looks like an error and is none
]
ROLES: tuple[str, ...] = get_args(Role)
EXPLAINING = ("cause", "cascade")  # roles that can be a root cause


@dataclass(frozen=True)
class Rule:
    """One `[[rule]]` of a TOML file below diagnose/rulebook/rules, or a learned one. See docs/add-a-rule.md."""

    name: str
    pattern: str  # RE2, searched for in a line; named groups fill in `cause` and `remedy`
    role: Role
    matches: tuple[str, ...]  # lines that it must match
    ignores: tuple[str, ...] = ()  # lines that it must not match
    unless: str = ""  # RE2: lines that match it are not matched by the rule
    traceback: str = ""  # RE2: must match in the traceback that the line ends
    raised_in: str = ""  # RE2: must match a frame next to the raise, as path:function
    reason: str = ""  # one of core.diagnosis.CATEGORY_OF; of a role that can be a cause
    cause: str = ""  # a sentence; {group} stands for what a named group matched
    remedy: str = ""
    recovery: Action = "unknown"
    why: str = ""  # why this recovery
    source: str = ""  # where the fact is from
    strength: int = 50  # 0 to 100: how specific it is; of two that explain the same lines the stronger one counts
    family: str = ""  # name of its file

    @property
    def needs_frames(self) -> bool:
        """It says nothing of a line alone."""
        return bool(self.traceback or self.raised_in)

    @property
    def category(self) -> Category:
        return CATEGORY_OF.get(self.reason, "unknown")


@dataclass(frozen=True)
class Hit:
    """A rule matched a line."""

    rule: Rule
    line: int  # number of the line
    groups: tuple[tuple[str, str], ...] = ()  # what its named groups matched

    @property
    def words(self) -> dict[str, str]:
        return dict(self.groups)


def read_rule(entry: dict[str, Any], family: str) -> Rule:
    """From a table of TOML; raises ValueError with what is wrong with it."""
    known = {setting.name for setting in fields(Rule)} - {"family"}
    if unknown := set(entry) - known:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r}; {choice_hint(sorted(unknown)[0], known)}")
    if missing := {"name", "pattern", "role", "matches"} - set(entry):
        raise ValueError(f"no {sorted(missing)[0]}")
    listed = {key: tuple(entry[key]) for key in ("matches", "ignores") if key in entry}
    rule = Rule(**{**entry, **listed, "family": family})
    if rule.role not in ROLES:
        raise ValueError(f"role is {rule.role!r}; {choice_hint(rule.role, ROLES)}")
    if rule.reason and rule.reason not in CATEGORY_OF:
        raise ValueError(f"reason is {rule.reason!r}; {choice_hint(rule.reason, CATEGORY_OF)}")
    if rule.recovery not in get_args(Action):
        raise ValueError(f"recovery is {rule.recovery!r}; {choice_hint(rule.recovery, get_args(Action))}")
    if rule.role in EXPLAINING and not all((rule.reason, rule.cause, rule.remedy, rule.source)):
        raise ValueError(f"a rule of role {rule.role} needs reason, cause, remedy and source")
    if not 0 <= rule.strength <= 100:
        raise ValueError(f"strength is {rule.strength}; use 0 to 100")
    return rule
