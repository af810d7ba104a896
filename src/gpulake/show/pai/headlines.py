"""The three findings of the paper: our numbers beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show.pai.parts import Chapter, Figure, Headline, Measure

UNKNOWN = "?"
GENERATED = Headline(
    "These data are generated (gpulake synth): not of a real cluster",
    "the generator draws from the published figures: agreement with them tests gpulake, not the real world",
)


class Measured:
    """The measures of all figures, by the figure's number and the measure's name."""

    def __init__(self, chapters: Sequence[Chapter]) -> None:
        self.figures: dict[str, Figure] = {
            figure.about.number: figure for chapter in chapters for figure in chapter.figures
        }

    def find(self, number: str, name: str) -> Measure | None:
        content = self.figures[number].content
        return next((measure for measure in content.measures if measure.name == name), None) if content else None

    def both(self, number: str, name: str, form: str = "{:.1f} %") -> tuple[str, str]:
        """Ours and the published one, in words."""
        measure = self.find(number, name)
        if measure is None:
            return UNKNOWN, UNKNOWN
        ours, reference = (
            UNKNOWN if value is None else form.format(value) for value in (measure.ours, measure.published)
        )
        return ours, reference

    def reason(self, *numbers: str) -> str:
        return next((self.figures[number].reason for number in numbers if self.figures[number].reason), "")


def headlines(chapters: Sequence[Chapter]) -> list[Headline]:
    measured = Measured(chapters)
    return [_requests_too_much(measured), _short_tasks_wait(measured), _tasks_recur(measured)]


def _requests_too_much(measured: Measured) -> Headline:
    if reason := measured.reason("6a", "6b", "6c"):
        return Headline("Not known here: how much more tasks request than they use", reason)
    gpu, cpu, memory = (
        measured.both(number, f"{name} plan above use", "{:.2f} %")
        for number, name in (("6b", "GPU"), ("6a", "CPU"), ("6c", "main memory"))
    )
    used, their_used = measured.both("6b", "used, median", "{:.1f} %")
    asked, _ = measured.both("6b", "GPUs asked for by a worker, median", "{:.2g}")
    worker, their_worker = measured.both("6b", "GPUs used by a worker, median", "{:.3f}")
    return Headline(
        f"{gpu[0]} of the tasks request more GPU than they use (published {gpu[1]})",
        f"CPU {cpu[0]} (published {cpu[1]}), main memory {memory[0]} ({memory[1]}); the median task uses {used} of a "
        f"GPU ({their_used}); a worker uses {worker} GPUs of the {asked} that it requests ({their_worker} of 0.5 to 1)",
    )


def _short_tasks_wait(measured: Measured) -> Headline:
    if reason := measured.reason("4b", "5b"):
        return Headline("Not known here: how long short tasks wait", reason)
    short, long = (measured.both("4b", f"{half}, waits more than half", "{:.1f} %") for half in ("short", "long"))
    content = measured.figures["5b"].content
    waits = sorted(
        (measure for measure in (content.measures if content else []) if measure.ours is not None),
        key=lambda measure: -(measure.ours or 0),
    )
    queues = ", ".join(
        f"{measure.name.removesuffix(', median')} {measure.ours:,.0f} s"
        + (f" ({measure.published:,.0f} s)" if measure.published is not None else "")
        for measure in waits
    )
    return Headline(
        f"{short[0]} of the short tasks wait more than half of their time, {long[0]} of the long ones "
        f"(published {short[1]} and {long[1]})",
        f"median wait by GPU type, longest first: {queues}",
    )


def _tasks_recur(measured: Measured) -> Headline:
    if reason := measured.reason("paper: recurrence", "paper: prediction"):
        return Headline("Not known here: how many tasks recur", reason)
    again = measured.both("paper: recurrence", "of groups of 5 and more")
    group = measured.both("paper: prediction", "last runs of the group, instances within 25 %")
    user = measured.both("paper: prediction", "median of the user, instances within 25 %")
    everyone = measured.both("paper: prediction", "median of everyone, instances within 25 %")
    return Headline(
        f"{again[0]} of the tasks recur five times or more (published {again[1]}); from that the run times of "
        f"{group[0]} of the instances are predicted within 25 % (published {group[1]})",
        f"predicted at submission, from what had ended by then; the median of the user does {user[0]}, that of "
        f"everyone {everyone[0]}",
    )
