"""The series behind an incident, as `detect explain` finds it. `flow` passes that in: no room imports another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gpulake.core.errors import UsageError
from gpulake.core.explanation import Explanation
from gpulake.show.explain_page import MOST_TRACKS, series_figure
from gpulake.show.explain_text import LEAST_SHARE
from gpulake.show.plots import Figure
from gpulake.show.web.viewers import Viewer

Explain = Callable[[str], Explanation]  # of the id of an incident


@dataclass(frozen=True)
class Explained:
    figures: list[tuple[str, Figure]]
    why: str = ""  # there is no figure
    of: str = ""  # whose jobs they are
    jobs: tuple[dict[str, Any], ...] = ()


def explained(explain: Explain | None, incident_id: str, viewer: Viewer) -> Explained | None:
    """Jobs of that time may be other people's: who sees some groups alone does not see them."""
    if explain is None:
        return None
    try:
        found = explain(incident_id)
    except UsageError as error:
        return Explained([], error.message)
    evidence, ran = found.evidence, found.ran
    jobs = tuple(asdict(job) for job in ran.jobs) if ran and not viewer.is_limited else ()
    of = ran.of if ran else ""
    if evidence is None:
        return Explained([], f"There is no series to draw: {found.rests_on}.", of, jobs)
    tracks = [track for track in evidence.tracks if track.share >= LEAST_SHARE] or list(evidence.tracks[:1])
    figures = [(track.metric, series_figure(evidence, track)) for track in tracks[:MOST_TRACKS]]
    for _, drawn in figures:
        drawn["layout"]["xaxis"]["zone"] = "UTC"
    return Explained(figures, "", of, jobs)
