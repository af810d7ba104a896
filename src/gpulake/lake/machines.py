"""Machines of a cluster, and machines and users of a job, as inventories and the records of schedulers have them."""

from __future__ import annotations

from collections.abc import Collection

from gpulake.lake.reader import LakeReader

_OF_CLUSTER = """
SELECT machine_id FROM silver_machines
WHERE cluster_id = getvariable('cluster') AND machine_id <> '(all machines)'
"""
# Silver has keys of machines; their names are in inventories, in telemetry, and in what sacct printed.
_OF_JOB = """
WITH named AS (
    SELECT machine_key, machine_id FROM silver_machines WHERE machine_id <> '(all machines)'
    UNION
    SELECT machine_key, node_id FROM silver_nodes
),
ran_on AS (
    SELECT jobs.cluster_id, named.machine_id
    FROM silver_jobs AS jobs
    INNER JOIN silver_instances AS instances ON jobs.job_key = instances.job_key
    INNER JOIN named ON instances.machine_key = named.machine_key
    WHERE jobs.job_id = getvariable('job_id')
    UNION
    SELECT coalesce(lower("Cluster"), 'slurm'), unnest(string_split(nodes, ','))
    FROM bronze_slurm_jobs
    WHERE job_id = getvariable('job_id') AND nodes <> ''
)
FROM ran_on WHERE getvariable('cluster_id') IS NULL OR cluster_id = getvariable('cluster_id')
"""


_USERS = """
SELECT DISTINCT cluster_id, user_id FROM silver_jobs
WHERE
    job_id = getvariable('job_id')
    AND (getvariable('cluster_id') IS NULL OR cluster_id = getvariable('cluster_id'))
"""


def user_of_job(reader: LakeReader, job_id: str, cluster_id: str | None) -> str | None:
    """None where it is unknown, or two clusters have a job of this id."""
    if "silver_jobs" not in reader.tables():
        return None
    rows = reader.query(_USERS, job_id=job_id, cluster_id=cluster_id).to_pylist()
    return rows[0]["user_id"] if len(rows) == 1 else None


def machines_of_cluster(reader: LakeReader, cluster_id: str) -> frozenset[str]:
    if "silver_machines" not in reader.tables():
        return frozenset()
    return frozenset(row["machine_id"] for row in reader.query(_OF_CLUSTER, cluster=cluster_id).to_pylist())


def machines_of_job(reader: LakeReader, job_id: str, cluster_id: str | None) -> frozenset[str]:
    """Those that the job ever ran on; none where they are unknown, or two clusters have a job of this id."""
    if not reader.tables() >= {"silver_jobs", "silver_instances", "silver_machines", "silver_nodes"}:
        return frozenset()
    rows = reader.query(_OF_JOB, job_id=job_id, cluster_id=cluster_id).to_pylist()
    return (
        frozenset(row["machine_id"] for row in rows) if len({row["cluster_id"] for row in rows}) == 1 else frozenset()
    )


def named(node: str, machines: Collection[str]) -> str | None:
    """The machine of that name, where one of the two may lack its domain; none where several would fit."""
    if node in machines:
        return node
    fitting = [machine for machine in machines if _is_same(machine.lower(), node.lower())]
    return fitting[0] if len(fitting) == 1 else None


def _is_same(name: str, other: str) -> bool:
    """gpu01 is gpu01.example.org, and gpu01.example.org is not gpu01.example.net. An address has no domain."""
    (short, _, domain), (others, _, other_domain) = name.partition("."), other.partition(".")
    return name == other or (short == others and not short.isdigit() and "" in (domain, other_domain))
