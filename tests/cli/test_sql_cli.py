"""gpulake sql: what its CSV does in a spreadsheet, and queries that somebody else wrote."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner, Result

from gpulake.cli import root
from gpulake.core import confinement
from gpulake.core.config import Config
from gpulake.core.errors import UsageError
from gpulake.show.health import check_all

UNLISTED = "FROM duckdb_settings()"


def asked(lake: Config, *arguments: str) -> Result:
    return CliRunner().invoke(root, ["sql", *arguments, "--lake", str(lake.lake)])


def test_csv_runs_nothing_in_a_spreadsheet_and_numbers_stay_numbers(shared_lake: Config) -> None:
    query = """SELECT * FROM (VALUES (-1, '=1+1', ['@x'], 'a'), (2, '-5', NULL, '+1'), (NULL, 'x=1', [], E'\\t1'))
        AS t(n, "=text", nested, "@word")"""
    assert asked(shared_lake, query, "--format", "csv").output == (
        "n,'=text,nested,'@word\n-1,'=1+1,['@x'],a\n2,'-5,,'+1\n,x=1,[],'\t1\n"
    )
    assert '"=text": "=1+1"' in asked(shared_lake, query, "--format", "json").output


def test_a_query_that_somebody_else_wrote_calls_listed_functions_alone(shared_lake: Config) -> None:
    assert asked(shared_lake, UNLISTED).exit_code == 0
    error = asked(shared_lake, UNLISTED, "--untrusted").exception
    assert isinstance(error, UsageError)
    assert error.message == "the function duckdb_settings() is not allowed in a query"
    assert asked(shared_lake, "SELECT 1 AS a", "--untrusted", "--format", "csv").output == "a\n1\n"


def test_on_a_lake_of_another_user_every_query_is_untrusted(
    shared_lake: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert isinstance(asked(shared_lake, UNLISTED).exception, UsageError)
    assert asked(shared_lake, "SELECT count(*) FROM silver_jobs").exit_code == 0


@pytest.mark.parametrize("missing", [confinement.SECCOMP, confinement.LANDLOCK])
def test_doctor_says_what_a_system_lacks_to_confine_queries(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    found = {confinement.SECCOMP: True, confinement.LANDLOCK: True, missing: False}
    monkeypatch.setattr("gpulake.show.health.available", lambda: found)
    (check,) = [one for one in check_all(Config()) if one.name == "sql queries"]
    assert (check.status, check.detail) == ("warn", f"confined by limits, without {missing}")
