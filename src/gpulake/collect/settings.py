"""Settings of a collector, and the same as command line arguments: for background processes and systemd units."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulake.collect.segments import CAP_BYTES
from gpulake.core.errors import UsageError
from gpulake.core.packaged import packaged_text
from gpulake.core.systemd import PLAIN, check_user, protect_home, quoted

STATE = Path("/var/lib")  # systemd creates state directories below it


def unit(settings: Settings, command: Sequence[str], *, more: Sequence[str] = (), user: str = "") -> str:
    """Runs the command with the settings and more arguments. Without a user systemd allocates one, which can write
    below /var/lib only."""
    base = settings.base
    if not base.is_absolute():
        raise UsageError(f"the folder of a service is {str(base)!r}", "give --dir as an absolute path")
    if user:
        check_user(user)
    if not user and (base.parent != STATE or not PLAIN.fullmatch(base.name)):
        raise UsageError(
            f"a user that systemd makes up cannot write to {base}", "give --user, or a --dir such as /var/lib/gpulake"
        )
    return packaged_text("gpulake.collect", "collector.service").format(
        command=" ".join(quoted(word) for word in [*command, "run", *settings.arguments(), *more]),
        user=f"User={user}" if user else f"DynamicUser=yes\nStateDirectory={base.name}",
        writable=f"ReadWritePaths={quoted(str(base))}" if user else "# It writes to its StateDirectory.",
        home=protect_home([*command, str(base)]),
    )


LEAST_INTERVAL_SECONDS = 0.1
LEAST_CAP_BYTES = 1 << 20
SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
BYTES = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for ending, base in (("", 1024), ("b", 1000), ("ib", 1024))
}
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True)
class Settings:
    base: Path = Path("runs")
    run_id: str = ""
    node_id: str = ""  # empty: the host's name
    stage: str = ""
    interface: str = ""
    peer: str = ""
    match: str = ""
    pid_dir: Path | None = None
    cgroup: str = ""
    has_refresh: bool = True
    interval_seconds: float = 1.0
    sources: tuple[str, ...] = ()  # empty: all
    cpu_freq_mhz: int = 0
    cap_bytes: int = CAP_BYTES
    duration_seconds: float = math.inf

    def arguments(self) -> list[str]:
        """The same as options of `gpulake collect run`, without empty ones."""
        given = {
            "--dir": str(self.base),
            "--run-id": self.run_id,
            "--node-id": self.node_id,
            "--stage": self.stage,
            "--interface": self.interface,
            "--peer": self.peer,
            "--match": self.match,
            "--pid-dir": "" if self.pid_dir is None else str(self.pid_dir),
            "--cgroup": self.cgroup,
            "--interval": _plain(self.interval_seconds),
            "--sources": ",".join(self.sources),
            "--cpu-freq-mhz": str(self.cpu_freq_mhz) if self.cpu_freq_mhz else "",
            "--cap": str(self.cap_bytes),
            "--duration": "" if math.isinf(self.duration_seconds) else _plain(self.duration_seconds),
        }
        # With an equals sign, since a value may begin with a dash.
        arguments = [f"{name}={value}" for name, value in given.items() if value]
        return arguments if self.has_refresh else [*arguments, "--no-refresh"]


def seconds_of(text: str) -> float:
    """'200ms', '0.5', '1s', '2min', '1h'."""
    return _quantity(text, SECONDS, "a time", "write it like 200ms, 1s, 0.5, 2min or 1h")


def bytes_of(text: str) -> int:
    """'1GiB', '500MB', '1048576'."""
    return round(_quantity(text, BYTES, "a size", "write it like 1GiB, 500MB or 1048576"))


def _plain(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def _quantity(text: str, units: dict[str, float] | dict[str, int], what: str, hint: str) -> float:
    found = QUANTITY.fullmatch(text.strip().lower())
    if not found or found[2] not in units:
        raise UsageError(f"{text!r} is not {what}", hint)
    return float(found[1]) * units[found[2]]
