"""Every question of the dashboard: asked of a lake of everything, of one of empty tables, and of one of none."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import pyarrow.parquet as pq
import pytest

from examples import each
from gpulake.core.config import Config
from gpulake.core.serve_settings import Serve, ServeUser
from gpulake.lake import Lake
from gpulake.lake.values import plain
from gpulake.show.web.answers import MOST_ROWS
from gpulake.show.web.given import filters_of
from gpulake.show.web.guard import Guard
from gpulake.show.web.questions import Question, questions
from hostile import FORMULA
from show.web.boards import Dashboard, dashboard
from show.web.lakes import HOSTILE_USER, ODD_USER

NAME = re.compile(r"[a-z][a-z0-9_]*")
LONG_ID = re.compile(r"synth-[0-9a-f]{12,}")
MOST_PAGES = 5
# What stands whatever the filter, as each says in its `about` or beside the number: findings of no one day or cluster,
# jobs and incidents on any type of GPU, and what machines and nodes are.
STANDING = {
    ("found", "cluster"): lambda row: row["cluster_id"] is None,
    ("found", "from"): lambda row: row["at"] is None,
    ("key_numbers", "gpu_type"): lambda row: row["label"] in ("jobs ended", "failed", "unresolved incidents"),
    ("fleet_facts", "from"): lambda row: row["label"] in ("Machines with GPUs", "GPUs", "Lemons"),
    ("runs_collected", "from"): lambda row: not (row["host_samples"] or row["spans"] or row["events"]),
    ("run_nodes", "from"): lambda row: row["samples"] is None,
}


each_question = each("question", questions().values(), name=lambda question: question.name)


@pytest.fixture(scope="module")
def full(rich: Config) -> Dashboard:
    return dashboard(rich)


@pytest.fixture(scope="module")
def other(rich: Config) -> Dashboard:
    """The same, of another process as it were: it remembers no answer."""
    return dashboard(rich)


@pytest.fixture(scope="module")
def hollow(rich: Config, tmp_path_factory: pytest.TempPathFactory) -> Dashboard:
    """Every table is there, and has no rows."""
    config = Config(lake=tmp_path_factory.mktemp("hollow") / "lake", threads=1)
    lake = Lake(config).create()
    with lake.writing(), lake.stage("hollow", Lake(rich).builds.current()) as staging:
        for table in staging.tables():
            staging.connection.execute(f"DELETE FROM lake.main.{table}")
        staging.publish()
    return dashboard(config)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Dashboard:
    """Nothing has landed and nothing was built."""
    config = Config(lake=tmp_path_factory.mktemp("bare") / "lake", threads=1)
    Lake(config).create()
    return dashboard(config)


@each_question
def test_it_says_what_it_is(question: Question) -> None:
    assert NAME.fullmatch(question.name)
    assert question.title
    assert question.order
    # A table by its bare name: somebody who may see some groups alone has views of these names.
    text = f"{question.sql} {question.details}"
    assert not re.search(r"\b(lake|landed|memory|temp|system)\s*\.\s*\w", text, re.IGNORECASE)
    assert not re.search(r"\b(read_\w+|glob|duckdb_\w+|query_table|query|getenv|sniff_csv)\s*\(", text, re.IGNORECASE)


@pytest.mark.slow
@each_question
def test_it_has_the_same_answer_twice(full: Dashboard, other: Dashboard, question: Question) -> None:
    full_answer = full.ask(question, limit=MOST_ROWS)
    assert full_answer["missing"] == []
    assert full_answer["columns"]
    again = other.ask(question, limit=MOST_ROWS)
    assert again == full_answer
    assert [list(row) for row in again["rows"]] == [[c["name"] for c in again["columns"]]] * len(again["rows"])


@pytest.mark.slow
@each_question
def test_of_no_tables_it_says_which_are_missing(bare: Dashboard, question: Question) -> None:
    answer = bare.ask(question)
    built = {table for table in question.tables if table.startswith(("silver_", "gold_"))}
    assert built <= set(answer["missing"]) <= question.tables
    if built:
        assert (answer["rows"], answer["total"]) == ([], 0)


@pytest.mark.slow
@each_question
def test_of_empty_tables_it_has_an_answer(hollow: Dashboard, question: Question) -> None:
    answer = hollow.ask(question)
    assert not [table for table in answer["missing"] if table.startswith(("silver_", "gold_"))]
    assert len(answer["rows"]) == answer["total"] <= 100


@pytest.mark.slow
@each_question
def test_pages_are_all_rows_once_and_in_order(full: Dashboard, question: Question) -> None:
    whole = parquet_of(full, question)
    limit = min(MOST_ROWS, max(1, math.ceil(len(whole) / (MOST_PAGES - 1))))
    found: list[dict[str, Any]] = []
    for page in range(MOST_PAGES):
        answer = full.ask(question, limit=limit, offset=page * limit)
        assert answer["total"] == len(whole)
        found += answer["rows"]
    assert found == whole[: MOST_PAGES * limit]


def parquet_of(board: Dashboard, question: Question, **given: str) -> list[dict[str, Any]]:
    params = {**board.needed(question.options), **given}
    response = board.client.get(f"/api/v1/{question.name}.parquet", params=params)
    assert response.status_code == 200, response.text
    rows = pq.read_table(io.BytesIO(response.content)).to_pylist()
    return [json.loads(json.dumps({name: plain(value) for name, value in row.items()})) for row in rows]


@pytest.mark.slow
@each_question
def test_a_csv_has_the_same_rows(full: Dashboard, question: Question) -> None:
    whole = parquet_of(full, question)
    kinds = {column["name"]: column["type"] for column in full.ask(question)["columns"]}
    response = full.client.get(f"/api/v1/{question.name}.csv", params=full.needed(question.options))
    head, *lines = csv.reader(io.StringIO(response.text, newline=""))
    assert (response.status_code, head) == (200, list(kinds))
    assert len(lines) == len(whole)
    for line, row in zip(lines, whole, strict=True):
        for cell, (name, value) in zip(line, row.items(), strict=True):
            assert is_same(cell, value, kinds[name]), (name, cell, value)
            assert kinds[name] != "text" or not cell.startswith(FORMULA), (name, cell)


def is_same(cell: str, value: Any, kind: str) -> bool:
    if value is None:
        return cell in ("", "nan", "inf", "-inf", "NaN")
    if kind == "flag":
        return cell == str(value).lower()
    if kind in ("integer", "number"):
        return math.isclose(float(cell), float(value), rel_tol=1e-9, abs_tol=1e-12)
    if kind == "text" and isinstance(value, str):
        return cell.removeprefix("'") == value.removeprefix("'")
    return bool(cell)


@pytest.mark.slow
@each_question
def test_filters_narrow(full: Dashboard, question: Question) -> None:
    """What is asked of a cluster, a type or a day that is not there has no rows, or says of each that it is nothing."""
    every = full.ask(question, limit=MOST_ROWS)
    nothing = {"cluster": "no such cluster", "gpu_type": "no such type", "from": "9000-01-01"}
    for option in filters_of(question):
        if option.name in nothing and option.name not in full.needed(question.options):
            few = full.ask(question, limit=MOST_ROWS, **{option.name: nothing[option.name]})
            assert few["total"] <= every["total"]
            stands = STANDING.get((question.name, option.name))
            reported = [row for row in few["rows"] if stands is None or not stands(row)]
            values = [value for row in reported for name, value in row.items() if is_number(name, few)]
            assert not any(values), (option.name, reported[:3])


def is_number(name: str, answer: dict[str, Any]) -> bool:
    kinds = {column["name"]: column["type"] for column in answer["columns"]}
    return kinds[name] in ("integer", "number") and not name.endswith(("rank", "place"))


@pytest.mark.slow
@each_question
def test_it_can_be_sorted_by_each_column(full: Dashboard, question: Question) -> None:
    answer = full.ask(question, limit=MOST_ROWS)
    if answer["total"] > MOST_ROWS:
        return  # more rows than one answer has
    rows = sorted(answer["rows"], key=repr)
    for place, column in enumerate(answer["columns"]):
        # Both ways by the first column, in turns by the others: each sort is a query.
        for is_reversed in (False, True) if place == 0 else (place % 2 == 1,):
            sort = f"{'-' * is_reversed}{column['name']}"
            found = full.ask(question, limit=MOST_ROWS, sort=sort)["rows"]
            assert sorted(found, key=repr) == rows
            if column["type"] in ("integer", "number", "date"):
                values = [row[column["name"]] for row in found if row[column["name"]] is not None]
                numbers = [value if column["type"] == "date" else float(value) for value in values]
                assert numbers == sorted(numbers, reverse=is_reversed)
                assert None not in [row[column["name"]] for row in found[: len(values)]]


@pytest.mark.slow
@each_question
def test_an_unknown_column_is_an_error(full: Dashboard, question: Question) -> None:
    full.ask(question, limit=7)
    for limit in (7, 8):  # columns are those of the same page unsorted, if it was asked for, or are asked for
        params = {**full.needed(question.options), "sort": 'no"such', "limit": limit}
        response = full.client.get(f"/api/v1/{question.name}", params=params)
        assert (response.status_code, set(response.json())) == (400, {"error", "hint"})
        assert response.json()["error"] == """no column 'no"such' to sort by"""


# Who may see some groups alone


@pytest.fixture(scope="module")
def limited(rich: Config) -> Dashboard:
    serve = Serve(users={"ann": ServeUser(groups=("ann",))})
    board = dashboard(rich, Guard(serve, {"ann-has-this-token": "ann"}))
    board.client.headers["Authorization"] = "Bearer ann-has-this-token"
    return board


@pytest.fixture(scope="module")
def foreign(full: Dashboard) -> frozenset[str]:
    """Ids of jobs, users and groups of which none is ann's."""
    with full.lake.reading() as reader:
        jobs = reader.query("SELECT job_id, user_id, group_id FROM silver_jobs").to_pylist()
    own = {value for job in jobs if job["user_id"] == "ann" for value in job.values()}
    return frozenset(str(value) for job in jobs for value in job.values() if value is not None and value not in own)


@pytest.mark.slow
@each_question
def test_a_limited_viewer_sees_no_other_users(limited: Dashboard, foreign: frozenset[str], question: Question) -> None:
    others = {"user": HOSTILE_USER, "group": ODD_USER, "job": "85"}
    asked: list[dict[str, str]] = [{}]
    asked += [{option.name: others[option.name]} for option in question.options if option.name in others]
    for given in asked:
        for row in limited.ask(question, limit=MOST_ROWS, **given)["rows"]:
            assert not (reported := names_in(row, foreign)), (given, reported, row)
    whole = parquet_of(limited, question)
    assert not [row for row in whole if names_in(row, foreign)]


def names_in(row: dict[str, Any], foreign: frozenset[str]) -> set[str]:
    """Of ids that are only a number, where a column says that it is one; of others, anywhere in a text."""
    found = set()
    for name, value in row.items():
        if (
            name in ("job_id", "user_id", "group_id", "subject", "owner_id", "idle_owner_id", "label")
            and value in foreign
        ):
            found.add(str(value))
        text = json.dumps(value, ensure_ascii=False) if value is not None else ""
        found |= foreign.intersection(LONG_ID.findall(text))
        found |= {user for user in (HOSTILE_USER, ODD_USER) if user in str(value)}
    return found


@pytest.mark.slow
def test_the_contracts_of_limits_are_about_something(full: Dashboard, foreign: frozenset[str]) -> None:
    reported = {
        name
        for name, question in questions().items()
        for row in full.ask(question, limit=MOST_ROWS)["rows"]
        if names_in(row, foreign)
    }
    tables = {table for question in questions().values() for table in question.tables}
    assert reported or not tables & {"silver_jobs", "gold_job_efficiency_daily", "gold_user_gpu_usage_daily"}
