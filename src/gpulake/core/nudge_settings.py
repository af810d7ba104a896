"""Warnings to jobs that hold GPUs without using them: `[nudges]` in gpulake.toml."""

from __future__ import annotations

from dataclasses import dataclass

from gpulake.core.errors import ConfigError
from gpulake.core.placeholders import check_command, placeholders

PLACEHOLDERS = ("cluster_id", "job_id", "user_id")


@dataclass(frozen=True)
class Nudges:
    """Warnings to jobs that hold GPUs without using them: `[nudges]` in gpulake.toml."""

    warn_after_minutes: float = 60.0  # of holding GPUs without using them: the first message
    final_after_minutes: float = 105.0  # the second message
    cancel_after_minutes: float = 120.0  # the job is cancelled
    least_gpus: float = 0.0  # jobs that hold fewer are left alone
    exclude_users: tuple[str, ...] = ()  # jobs of these users are left alone
    exclude_accounts: tuple[str, ...] = ()  # of these accounts
    exclude_workloads: tuple[str, ...] = ()  # of these workloads
    exclude_groups: tuple[str, ...] = ()  # of these groups
    exclude_gpu_types: tuple[str, ...] = ()  # on these GPU types
    most_cancels_per_run: int = 10  # further ones wait for the next run
    most_stale_minutes: float = 60.0  # nothing is cancelled on what was seen longer ago
    cancel_command: tuple[str, ...] = ()  # a program and its arguments, such as ["scancel", "{job_id}"]; empty: none
    mail_sink: str = ""  # the sink of [alerts.sinks] that mails the messages to users: apprise or webhook; empty: none
    mail_to: str = ""  # the address of a user, such as {user_id}@example.org; empty: no mail

    def __post_init__(self) -> None:
        steps = (self.warn_after_minutes, self.final_after_minutes, self.cancel_after_minutes)
        if not 0 < steps[0] < steps[1] < steps[2] < float("inf"):
            words = ", ".join(f"{minutes:g}" for minutes in steps)
            raise ConfigError(
                f"nudges warn, warn finally and cancel after {words} minutes", "give three numbers, each above the last"
            )
        if self.most_cancels_per_run < 0:
            raise ConfigError(f"most_cancels_per_run is {self.most_cancels_per_run}", "use 0 for none, or more")
        if not self.least_gpus >= 0 or not self.most_stale_minutes >= 0:
            raise ConfigError("least_gpus or most_stale_minutes is below 0", "use 0 or more")
        check_command("cancel_command", self.cancel_command, PLACEHOLDERS, "job_id", "job")
        if bool(self.mail_sink) != bool(self.mail_to):
            raise ConfigError("mail_sink and mail_to of [nudges] need each other", "give both, or none of them")
        named = placeholders([self.mail_to])
        if self.mail_to and ("user_id" not in named or not set(named) <= {"user_id", "cluster_id"}):
            raise ConfigError(f"mail_to is {self.mail_to!r}", "write it like {user_id}@example.org")
