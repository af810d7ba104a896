"""The dbt project itself: compiled into the plan for everyone, run as it is by those who write models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from gpulake.core.config import Config
from gpulake.core.errors import BuildError, UsageError
from gpulake.core.types import TestResult
from gpulake.lake import Lake
from gpulake.model.build import write_parameters
from gpulake.model.plan import Plan, from_manifest


def compile_plan(folder: Path, config: Config) -> Plan:
    """Lets dbt compile the project against an empty lake in the folder."""
    lake = Lake(config).create()
    build = folder / "lake.duckdb"
    _write_landed(lake, folder / "landed.duckdb")
    _run(["compile"], build, folder)
    return from_manifest(json.loads((folder / "target" / "manifest.json").read_text(encoding="utf-8")))


def build_with_dbt(lake: Lake, build: Path) -> list[TestResult]:
    """Runs `dbt build`, unit tests and all, on what landed; leaves the tables in the build's file."""
    _write_landed(lake, lake.staging / "landed.duckdb")
    results = _run(["build"], build, lake.staging)
    return [
        TestResult(
            name=result.node.name,
            table=result.node.attached_node.rsplit(".", 1)[-1] if result.node.attached_node else "",
            column=result.node.column_name or "",
            severity=result.node.config.severity.lower(),
            failures=result.failures or 0,
            seconds=result.execution_time,
        )
        for result in results
        if result.node.resource_type == "test"
    ]


def _write_landed(lake: Lake, path: Path) -> None:
    path.unlink(missing_ok=True)
    with lake.connect() as connection:
        lake.attach_landed(connection, path)
        write_parameters(connection, lake.config)


def _run(arguments: list[str], build: Path, folder: Path) -> list[Any]:
    try:
        from dbt.cli.main import dbtRunner
    except ImportError as error:
        raise UsageError("dbt is not installed", "install it with: pip install 'gpulake[dbt]'") from error
    with _project() as project, _environment(build, folder / "landed.duckdb"):
        places = ["--project-dir", project, "--profiles-dir", project]
        outputs = ["--target-path", str(folder / "target"), "--log-path", str(folder / "logs"), "--quiet"]
        answer = dbtRunner().invoke([*arguments, *places, *outputs, "--no-partial-parse"])
    if answer.exception:
        raise BuildError(f"dbt failed: {answer.exception}", "run dbt in the project's folder to see more")
    results = list(getattr(answer.result, "results", []))
    broken = [result.node.name for result in results if result.status in ("error", "skipped")]
    broken += [result.node.name for result in results if result.node.resource_type == "unit_test" and result.failures]
    if broken:
        raise BuildError(f"dbt could not build {', '.join(broken[:5])}", "run dbt in the project's folder to see more")
    return results


@contextmanager
def _project() -> Iterator[str]:
    with as_file(files("gpulake.model").joinpath("project")) as path:
        yield str(path)


@contextmanager
def _environment(build: Path, landed: Path) -> Iterator[None]:
    """dbt reads the places from the environment, and must not call home."""
    ours = {"GPULAKE_DBT_BUILD": str(build), "GPULAKE_DBT_LANDED": str(landed), "DO_NOT_TRACK": "1"}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
