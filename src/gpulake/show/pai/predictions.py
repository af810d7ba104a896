"""Chapter: how well run times could have been predicted (the paper's prediction)."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.core.pai import published
from gpulake.core.types import DurationScore
from gpulake.show.pai.compare import points_apart
from gpulake.show.pai.parts import Content, Curve, Figures, Measure

ALL = "all"
METHODS = {
    "recurrence": "last runs of the group",
    "user": "median of the user",
    "everybody": "median of everyone",
}
FIGURES = Figures[Sequence[DurationScore]]("Prediction")


@FIGURES.add("paper: prediction")
def predicted(scores: Sequence[DurationScore]) -> Content:
    reference = published()["paper"]["predicted_within_quarter_percent"]
    measures: list[Measure] = []
    curves: list[Curve] = []
    for hue, (method, label) in enumerate(METHODS.items()):
        scored = [score for score in scores if score.method == method and score.tasks]
        names = [score.past_runs for score in scored]
        curves.append(
            Curve(label, names, [_percent(score.within_quarter_instances_ratio) for score in scored], hue, style="bars")
        )
        for score in scored:
            if score.past_runs != ALL:
                continue
            of_instances, of_tasks = (
                _percent(score.within_quarter_instances_ratio),
                _percent(score.within_quarter_ratio),
            )
            compared = reference if method == "recurrence" else None
            measures.append(points_apart(f"{label}, instances within 25 %", of_instances, compared, 0.5))
            measures.append(Measure(f"{label}, tasks within 25 %", "%", of_tasks))
            measures.append(Measure(f"{label}, median |ln(predicted / true)|", "", score.median_log_error))
            if method == "recurrence":
                measures.append(Measure("predicted from the group", "%", _percent(score.from_group_ratio)))
    curves.append(Curve("regression tree", [ALL], [reference], 0, is_published=True, style="points"))
    return Content(curves, measures, "runs of the group before", "instances within 25 %, %")


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(100 * ratio, 3)
