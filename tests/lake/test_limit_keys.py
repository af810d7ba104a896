"""A name that is shared with others is nobody's own."""

from __future__ import annotations

from pathlib import Path

from gpulake.lake.engine import connect
from gpulake.lake.limits import KEYS, limit

# Job 1 and user ann are in two groups; job 2, bob and group g are wholly theirs who may see g.
JOBS = """
CREATE TABLE lake.main.silver_jobs AS SELECT * FROM (VALUES
    (1, 'c', '1', 'ann', 'g', NULL::VARCHAR), (2, 'c', '1', 'ann', 'h', NULL), (3, 'c', '2', 'bob', 'g', NULL)
) AS jobs (job_key, cluster_id, job_id, user_id, group_id, account_id)
"""


def test_a_name_is_theirs_if_all_jobs_of_that_name_are(tmp_path: Path) -> None:
    with connect("200MB", 1, tmp_path) as connection:
        connection.execute("ATTACH ':memory:' AS lake")
        connection.execute(JOBS)
        limit(connection, "own", {"g"})
        tables = ("jobs", "job_ids", "lone_job_ids", "users", "lone_users", "groups", "pairs")
        found = {name: connection.execute(f"FROM own.{KEYS}.{name} ORDER BY ALL").fetchall() for name in tables}
    assert found == {
        "jobs": [(1,), (3,)],
        "job_ids": [("c", "2")],
        "lone_job_ids": [("2",)],
        "users": [("c", "bob")],
        "lone_users": [("bob",)],
        "groups": [("c", "g")],
        "pairs": [("c", "ann", "g"), ("c", "bob", "g")],
    }
