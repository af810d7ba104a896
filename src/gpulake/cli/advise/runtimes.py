"""gpulake advise runtimes: how well run times could have been predicted."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._output import print_json, print_table
from gpulake.core.words import span
from gpulake.flow import Flow


@click.command()
@click.option("--cluster", help="This cluster. [default: the only one]")
@flow_options
def command(cluster: str | None, flow: Flow, as_json: bool) -> None:
    """How well the run time of a task could have been predicted when it was submitted, from what had ended by then.

    The prediction is the median of the last five runs of the same group with the same request; else of the group, of
    the user, of everyone. Published for PAI: 78 % of instances within 25 %, by a regression tree that knew the trace.

    \b
    Example:  gpulake advise runtimes --cluster pai
    """
    from gpulake.core.pai import published
    from gpulake.flow.advising import predicted_run_times

    chosen, scores, rows = predicted_run_times(flow, cluster)
    reference = published()["paper"]["predicted_within_quarter_percent"] / 100
    if as_json:
        document = {"cluster": chosen, "published_within_quarter_instances_ratio": reference}
        print_json(document | {"scores": list(map(asdict, scores)), "calibration": list(map(asdict, rows))})
        return
    found = [score for score in scores if score.tasks]
    if not found:
        click.echo(f"{chosen}: no task began after another had ended, so there is nothing to predict from")
        return
    every = next(score for score in found if (score.method, score.past_runs) == ("recurrence", "all"))
    ratio = every.within_quarter_instances_ratio or 0.0
    click.secho(f"{chosen}: {ratio:.1%} of instances within 25 % (published for PAI: {reference:.0%})", bold=True)
    columns = ("method", "past runs of the group", "tasks", "within 25 %", "instances within 25 %", "median |ln|")
    print_table(
        columns,
        [
            (
                score.method,
                score.past_runs,
                score.tasks,
                f"{score.within_quarter_ratio:.1%}",
                f"{score.within_quarter_instances_ratio:.1%}",
                round(score.median_log_error or 0.0, 3),
            )
            for score in found
        ],
    )
    click.secho("Calibration: half of the tasks should run no longer than predicted", bold=True)
    columns = ("predicted below", "tasks", "predicted, median", "ran, median", "no longer", "within 25 %")
    print_table(
        columns,
        [
            (
                row.predicted_below,
                row.tasks,
                span(row.median_predicted_seconds),
                span(row.median_seconds),
                f"{row.not_longer_ratio:.1%}",
                f"{row.within_quarter_ratio:.1%}",
            )
            for row in rows
        ],
    )
