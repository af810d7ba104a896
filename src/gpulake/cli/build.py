"""gpulake build: silver and gold from what landed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from gpulake.cli._flow import flow_options
from gpulake.cli._options import ANY_PATH, build_options, quiet_option
from gpulake.cli._output import print_findings, print_json, remark
from gpulake.cli._progress import progress_bar
from gpulake.core.errors import UsageError
from gpulake.core.words import count
from gpulake.flow import Flow
from gpulake.flow.order import Work

LOCAL_MASTER = "local[*]"  # of Spark: every core of this machine


@click.command()
@build_options
@click.option("--dbt", "is_dbt", is_flag=True, help="Run the project with dbt itself, including its unit tests.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    help="What works out the models. [default: duckdb]",
)
@click.option("--master", metavar="URL", help="With --engine spark: its master, such as local[4] or spark://HOST:7077.")
@click.option("--model", type=ANY_PATH, help="Score days with this model file; fit none.")
@quiet_option
@flow_options
def command(model: Path | None, engine: str, master: str | None, flow: Flow, as_json: bool, **options: Any) -> None:
    """Build silver and gold, test them, score the days, and publish the whole build at once.

    Readers see the last complete build until this one is done. A build whose tests fail is not published.

    --engine spark works out every model with Apache Spark and publishes the same tables: docs/scale.md.

    \b
    Example:  gpulake build
    """
    if master and engine != "spark":
        raise UsageError("--master was given without --engine spark", "add --engine spark, or leave --master out")
    spark_master = master or LOCAL_MASTER if engine == "spark" else ""
    with progress_bar(is_silent=as_json) as flow.report:
        result = flow.run(Work(model=model, spark_master=spark_master, **options)).build
    if as_json:
        print_json(asdict(result))
        return
    print_findings(result.findings)
    if not result.is_new:
        remark(f"Nothing has changed since build {result.build_id}.")
        return
    if result.left_out:
        remark(f"Made without: {', '.join(result.left_out)}")
    warned = sum(test.status == "warn" for test in result.tests)
    if result.touched:
        days, late = count(result.touched.touched_days, "day"), count(result.touched.late_attempts, "attempt")
        remark(f"The last build was extended: {days} rebuilt, {late} came late.")
    remark(f"Build {result.build_id}: {len(result.tests)} data tests, {warned} with warnings.")
    remark("Next: gpulake tables, gpulake tests, gpulake report overview")
