"""The names of a cluster's machines, where an inventory landed."""

from __future__ import annotations

from gpulake.lake import Reader

_NAMES = """
SELECT machine_id FROM silver_machines
WHERE cluster_id = getvariable('cluster') AND machine_id <> '(all machines)'
"""


def read_machines(reader: Reader, cluster_id: str) -> frozenset[str]:
    # A build of a few tables may be without it.
    if not any(row["name"] == "silver_machines" for row in reader.query("SHOW TABLES").to_pylist()):
        return frozenset()
    return frozenset(row["machine_id"] for row in reader.query(_NAMES, cluster=cluster_id).to_pylist())
