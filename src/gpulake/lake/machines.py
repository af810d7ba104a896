"""Machines of a cluster, and machines and users of a job, as inventories and the records of schedulers have them."""

from __future__ import annotations

from collections.abc import Collection

from gpulake.core.packaged import queries
from gpulake.lake.reader import LakeReader

SQL = queries("gpulake.lake", "machines.sql")


def user_of_job(reader: LakeReader, job_id: str, cluster_id: str | None) -> str | None:
    """None where it is unknown, or two clusters have a job of this id."""
    if "silver_jobs" not in reader.tables():
        return None
    rows = reader.query(SQL["users"], job_id=job_id, cluster_id=cluster_id).to_pylist()
    return rows[0]["user_id"] if len(rows) == 1 else None


def machines_of_cluster(reader: LakeReader, cluster_id: str) -> frozenset[str]:
    if "silver_machines" not in reader.tables():
        return frozenset()
    return frozenset(row["machine_id"] for row in reader.query(SQL["of_cluster"], cluster=cluster_id).to_pylist())


def machines_of_job(reader: LakeReader, job_id: str, cluster_id: str | None) -> frozenset[str]:
    """Those that the job ever ran on; none where they are unknown, or two clusters have a job of this id."""
    if not reader.tables() >= {"silver_jobs", "silver_instances", "silver_machines", "silver_nodes"}:
        return frozenset()
    rows = reader.query(SQL["of_job"], job_id=job_id, cluster_id=cluster_id).to_pylist()
    return (
        frozenset(row["machine_id"] for row in rows) if len({row["cluster_id"] for row in rows}) == 1 else frozenset()
    )


def named(node: str, machines: Collection[str]) -> str | None:
    """The machine of that name, where one of the two may lack its domain; none where several would fit."""
    if node in machines:
        return node
    fitting = [machine for machine in machines if _is_same(machine.lower(), node.lower())]
    return fitting[0] if len(fitting) == 1 else None


def distinct(machines: Collection[str]) -> tuple[str, ...]:
    """Each machine under its shortest name."""
    found: list[str] = []
    for machine in sorted(machines, key=lambda name: (len(name), name)):
        if named(machine, found) is None:
            found.append(machine)
    return tuple(sorted(found))


def _is_same(name: str, other: str) -> bool:
    """gpu01 is gpu01.example.org, and gpu01.example.org is not gpu01.example.net. An address has no domain."""
    (short, _, domain), (others, _, other_domain) = name.partition("."), other.partition(".")
    return name == other or (short == others and not short.isdigit() and "" in (domain, other_domain))
