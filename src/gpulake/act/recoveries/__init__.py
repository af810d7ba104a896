"""One file an executor. It gives the commands of a step and starts none: act/commands.py does.

So a plan is shown exactly as it would be carried out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpulake.act.commands import SAFE
from gpulake.core.errors import ActError
from gpulake.core.placeholders import filled, placeholders
from gpulake.core.recovery_settings import Recoveries
from gpulake.core.registry import Registry
from gpulake.formats.slurm import hosts

MOST_TEXT = 200
MOST_MESSAGE = 2_000
# A DNS name: stricter than SAFE, since a name that is taken for a list or a path would cost more than one node.
_NODE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})", re.ASCII)
# scontrol takes this name for every node.
_NOT_A_NODE = {"all"}
_PATH = re.compile(r"/[\w./=+@:-]*", re.ASCII)
_UNSAFE = re.compile(r"[^\w .,:;+@/()\[\]%#=?!*-]", re.ASCII)


@dataclass(frozen=True)
class Command:
    arguments: tuple[str, ...]
    failed_if_said: str = ""  # text of a failure that exits with 0


@dataclass(frozen=True)
class NodeQuery:
    """A command that prints the nodes of a job, and how to read its output. It changes nothing."""

    arguments: tuple[str, ...]
    read: Callable[[str], list[str]]  # raises ValueError where it cannot be read


@dataclass(frozen=True)
class Order:
    """A step with the values that its commands may use. What comes from logs is not trusted."""

    incident_id: str
    attempt: int
    job_id: str | None = None
    cluster_id: str | None = None
    node: str | None = None
    checkpoint: str | None = None
    checkpoint_step: int | None = None
    skip_from_step: int | None = None
    skip_to_step: int | None = None
    reason: str = ""
    cause: str = ""
    message: str = ""

    def job(self) -> str:
        if self.job_id is None:
            raise ActError("the id of the job is unknown", "name it with --job")
        if not SAFE.fullmatch(self.job_id):
            raise ActError(f"job id {self.job_id!r} cannot be handed to a program safely", "name the job with --job")
        return self.job_id

    def the_node(self) -> str:
        return safe_node(self.node or "")

    def word(self, placeholder: str) -> str | None:
        """The value of a placeholder; None where it is unknown. Only values that are used must be safe."""
        value = getattr(self, placeholder)
        if value is None:
            return None
        if placeholder == "job_id":
            return self.job()
        if placeholder == "node":
            return self.the_node()
        if placeholder == "checkpoint":
            return safe_path(value)
        return plain(str(value), MOST_MESSAGE if placeholder == "message" else MOST_TEXT)


Commands = tuple[Command, ...]


class Executor(Protocol):
    """The commands of each step, in order; ActError where the step cannot be taken."""

    def restart(self, order: Order) -> Commands: ...

    def rollback(self, order: Order) -> Commands: ...

    def cordon(self, order: Order) -> Commands: ...

    def uncordon(self, order: Order) -> Commands: ...

    def tell(self, order: Order) -> Commands: ...

    def nodes(self, order: Order) -> NodeQuery | None:
        """The command that prints the nodes of the job; None: there is none."""

    def why_cordoned(self, order: Order) -> tuple[str, ...]:
        """The command that prints why the node is out of service; empty: there is none."""


RECOVERIES: Registry[Callable[[Recoveries], Executor]] = Registry("executor", "gpulake.act.recoveries")


def plain(text: str, most: int = MOST_TEXT) -> str:
    """Text of a log as one safe argument: no quotes, no escapes, no option, and not too long."""
    kept = _UNSAFE.sub("?", " ".join(text.split())).lstrip("-= ")
    return kept if len(kept) <= most else kept[: most - 3] + "..."


def safe_node(name: str) -> str:
    if not _NODE.fullmatch(name) or name.lower() in _NOT_A_NODE:
        raise ActError(f"node {name!r} cannot be handed to a program safely", "cordon it by hand, if it is one")
    return name


def safe_path(path: str) -> str:
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        raise ActError(f"checkpoint {path!r} cannot be handed to a program safely", "name its folder in plain letters")
    return path


def hooked(name: str, command: Sequence[str], order: Order) -> Commands:
    """A command of the settings, with its placeholders filled."""
    if not command:
        raise ActError(f"no {name} is set", f"set {name} in [recoveries] of gpulake.toml")
    words: dict[str, str] = {}
    for placeholder in placeholders(command):
        word = order.word(placeholder)
        if word is None:
            raise ActError(f"{name} wants {{{placeholder}}}, which is unknown", _HINTS.get(placeholder, ""))
        words[placeholder] = word
    return (Command(filled(command, words)),)


def node_query(settings: Recoveries, order: Order) -> NodeQuery | None:
    """By the nodes_command of the settings: names like n1 or n[01-16], separated by commas, spaces or lines."""
    if not settings.nodes_command:
        return None
    (command,) = hooked("nodes_command", settings.nodes_command, order)
    return NodeQuery(
        command.arguments, lambda output: [name for word in output.split() for name in hosts(word.strip(","))]
    )


_HINTS = {"job_id": "name it with --job", "checkpoint": "name the folder of checkpoints with --checkpoints"}
