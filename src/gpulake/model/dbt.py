"""The dbt project itself: compiled into the plan for everyone, run as it is by those who write models.

dbt gets a process of its own: it keeps databases open, and settings in the environment, for as long as it lives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpulake.core.config import Config
from gpulake.core.errors import BuildError, UsageError
from gpulake.lake import Lake
from gpulake.model.build import bound_by_landing, write_settings
from gpulake.model.emptiness import with_emptiness
from gpulake.model.plan import Plan, from_manifest

# dbt calls a database by the name of its file.
DATABASE = "lake.duckdb"
LANDED = "landed.duckdb"


def compile_plan(folder: Path, config: Config) -> Plan:
    """Lets dbt compile the project against an empty lake in the folder."""
    _write_landed(Lake(config).create(), folder / LANDED)
    _run("compile", folder)
    return with_emptiness(from_manifest(_document(folder, "manifest")))


def build_with_dbt(
    lake: Lake,
    build: Path,
    without: Collection[tuple[str, str]] = (),
    only: Collection[tuple[str, str]] | None = None,
) -> None:
    """Runs `dbt build` with the unit tests on what landed; the data tests are asked of the tables as in any build."""
    _write_landed(lake, lake.staging / LANDED, without, only)
    _run("build", lake.staging)
    (lake.staging / DATABASE).replace(build)


def _write_landed(
    lake: Lake,
    path: Path,
    without: Collection[tuple[str, str]] = (),
    only: Collection[tuple[str, str]] | None = None,
) -> None:
    path.unlink(missing_ok=True)
    with lake.connect() as connection:
        lake.attach_landed(connection, path, without, only).make_all()
        write_settings(connection, lake.config)
        bound_by_landing(connection)


def _run(verb: str, folder: Path) -> None:
    if find_spec("dbt") is None:
        raise UsageError("dbt is not installed", "install it with: pip install 'gpulake[dbt]'")
    places = {"GPULAKE_DBT_BUILD": str(folder / DATABASE), "GPULAKE_DBT_LANDED": str(folder / LANDED)}
    with as_file(files("gpulake.model").joinpath("project")) as project:
        command = [sys.executable, "-m", "dbt.cli.main", "--quiet", "--no-use-colors", verb, "--no-partial-parse"]
        command += ["--project-dir", str(project), "--profiles-dir", str(project)]
        command += ["--exclude-resource-type", "test"] if verb == "build" else []
        command += ["--target-path", str(folder / "target"), "--log-path", str(folder / "logs")]
        environment = {**os.environ, **places, "DO_NOT_TRACK": "1"}
        answer = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603
    if answer.returncode:
        broken = [] if verb == "compile" else _broken(folder)
        said = (answer.stdout + answer.stderr).strip()[-2000:]
        raise BuildError(f"dbt could not {verb} {', '.join(broken[:5])}: {said}", "fix the model that it names")


def _broken(folder: Path) -> list[str]:
    """Models and unit tests that did not come out right."""
    if not (folder / "target" / "run_results.json").exists():
        return ["the project"]
    results = _document(folder, "run_results")["results"]
    bad = ("error", "skipped", "fail")
    return [result["unique_id"] for result in results if result["status"] in bad]


def _document(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "target" / f"{name}.json").read_text(encoding="utf-8"))
    return document
