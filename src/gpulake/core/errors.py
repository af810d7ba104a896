"""The error tree.

GpulakeError            exit 1   the root: a message that carries the value, a hint that is the way out
├── UsageError          exit 2   the user asked for something that does not exist or does not parse
│   └── ConfigError     exit 2   gpulake.toml, an environment variable or a flag is wrong
├── InputError          exit 3   a file that was given cannot be landed
├── LakeError           exit 4   the lake is missing or damaged
│   └── LakeBusyError   exit 4   the lake is busy or its disk is full or failing: the same again may go well later
├── BuildError          exit 5   a model failed, broke its contract or failed its tests
├── FetchError          exit 6   a download failed or does not match its checksum
├── StepError           exit 7   a step of a refresh failed; names the step
├── ActError            exit 8   something that was to be done on a cluster failed; names the job
│   └── SinkError       exit 8   an alert could not be delivered; names the sink, and never its secrets
└── PullError           exit 9   a server or a program gave no usable answer; what was pulled before it has landed
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)


class GpulakeError(Exception):
    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GpulakeError):
    exit_code = 2


class ConfigError(UsageError):
    pass


class InputError(GpulakeError):
    exit_code = 3


class LakeError(GpulakeError):
    exit_code = 4


class LakeBusyError(LakeError):
    pass


class BuildError(GpulakeError):
    exit_code = 5


class FetchError(GpulakeError):
    exit_code = 6


class StepError(GpulakeError):
    exit_code = 7


class ActError(GpulakeError):
    exit_code = 8


class SinkError(ActError):
    def __init__(
        self, message: str, hint: str = "", is_final: bool = False, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, hint)
        self.is_final = is_final  # the same alert would be refused again
        self.retry_after_seconds = retry_after_seconds  # as the other side wishes


class PullError(GpulakeError):
    exit_code = 9


def require(is_right: bool, message: str, hint: str) -> None:
    """Of settings: what is not right is a ConfigError."""
    if not is_right:
        raise ConfigError(message, hint)


def require_name(what: str, name: str) -> None:
    """Of a table of settings that the user names."""
    require(bool(_NAME.fullmatch(name)), f"{what} is named {name!r}", "use small letters, digits, - and _")


def choice_hint(given: str, known: Iterable[str]) -> str:
    """The nearest known word, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"choose from: {', '.join(names)}"
