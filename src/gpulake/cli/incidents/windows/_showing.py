"""How a maintenance window looks to people and to machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulake.core.words import label

if TYPE_CHECKING:
    from gpulake.act.incidents.windows import Window


def window_line(window: Window) -> tuple[str, ...]:
    times = [f"{at:%Y-%m-%d %H:%M}" if at else "" for at in (window.starts_at, window.ends_at)]
    weekly = " ".join(filter(None, (window.weekdays, window.hours, window.time_zone if window.is_weekly else "")))
    patterns = (window.cluster, window.node, window.kind)
    return (window.window_id, *(label(one, 60) for one in patterns), *times, weekly, label(window.note, 100))


COLUMNS = ("window", "cluster", "node", "kind", "from (UTC)", "until (UTC)", "every week", "note")
