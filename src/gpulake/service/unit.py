"""The systemd unit of the service."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.core.config import Config
from gpulake.core.packaged import packaged_text
from gpulake.core.systemd import check_user, protect_home, quoted
from gpulake.service.children import KILL_SECONDS, PROGRAM


def unit(common: Sequence[str], config: Config, user: str, role: str = "") -> str:
    check_user(user)
    command = [*PROGRAM, "run", *([role] if role else []), *common]
    seconds = config.run.drain_seconds + 2 * KILL_SECONDS
    return packaged_text("gpulake.service", "gpulake.service").format(
        command=" ".join(quoted(word) for word in command),
        user=user,
        stop=f"{seconds:.0f}",
        writable=quoted(str(config.lake)),
        home=protect_home([*command, str(config.lake)]),
    )
