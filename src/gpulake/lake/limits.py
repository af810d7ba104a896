"""The lake for a viewer who may see only the rows of some groups: views that hide the tables of the same names.

What a view lets through follows from the columns of its table. A row that names a job is visible if the job is theirs;
one that names a user or a group, if all jobs of that name are; one that names no person, to all. The rest is hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpulake.core.kinds import kinds_about
from gpulake.core.packaged import queries
from gpulake.lake.engine import Connection, name, text
from gpulake.lake.views import LANDED

KEYS = "keys"  # a schema beside that of the views, which no query looks into
# Findings and incidents of these kinds name no person and no job.
CLUSTER_KINDS = kinds_about("cluster", "day", "table")
# Tables of the journal and of builds that name no person.
OPEN = frozenset(
    {
        *("build_info", "build_inputs", "runs", "table_builds", "test_results"),
        *("maintenance_windows", "maintenance_window_events"),
    }
)
# Columns of visible rows whose text may name other people: they are redacted.
REDACTED: Mapping[str, tuple[str, ...]] = {
    "alert_events": ("body",),
    "alerts": ("body",),
    "diagnoses": ("similar",),
    "incident_events": ("first_cause", "members"),
    "incidents": ("first_cause", "members"),
    "runs": ("detail",),
    "gold_reservations": ("accounts", "users"),
    "silver_machine_states": ("reason", "reason_by"),
    "silver_partitions": ("allowed_accounts",),
    "silver_reservations": ("accounts", "groups", "users"),
    "silver_node_events": ("message", "pid", "subject"),
}
OWNERS = frozenset({"owner_id", "idle_owner_id"})
# Columns that name people, or what they run, in tables that no rule below knows how to narrow.
NAMING = frozenset(
    {
        *("user", "user_id", "group", "group_id", "account", "account_id", "command", "pid", "parent_pid", "path"),
        *("job", "job_id", "job_key", "job_name", "jobid", "run", "run_id", "run_name", "log"),
        *("owner", *OWNERS, "worker_name", "row_text", "detail", "message", "subject", "headline", "title"),
    }
)
SQL = queries("gpulake.lake", "limits.sql")
# Job ids and users are unique within a cluster: where a row names no cluster, all of that name have to be theirs.
TABLES = {
    "jobs": "SELECT job_key FROM {keys}.every WHERE is_theirs",
    "job_ids": "SELECT cluster_id, job_id FROM {keys}.every GROUP BY ALL HAVING bool_and(is_theirs)",
    "lone_job_ids": "SELECT job_id FROM {keys}.every GROUP BY ALL HAVING bool_and(is_theirs)",
    "users": "SELECT cluster_id, named_user FROM {keys}.every GROUP BY ALL HAVING bool_and(is_theirs)",
    "lone_users": "SELECT named_user FROM {keys}.every GROUP BY ALL HAVING bool_and(is_theirs)",
    "groups": "SELECT cluster_id, named_group FROM {keys}.every GROUP BY ALL HAVING bool_and(is_theirs)",
    "pairs": "SELECT cluster_id, named_user, named_group FROM {keys}.every GROUP BY ALL HAVING bool_and(is_theirs)",
}


def limit(connection: Connection, catalogue: str, groups: Collection[str]) -> None:
    """Makes the catalogue: a view for every table, and the keys that the views look up."""
    found = connection.execute(SQL["columns"].format(landed=LANDED)).fetchall()
    # A build's table is found before a view of what has landed, as readers without limits find it.
    tables = {table: (where, list(columns)) for where, table, columns in reversed(found)}
    connection.execute(f"ATTACH OR REPLACE ':memory:' AS {catalogue}")
    keys = f"{catalogue}.{KEYS}"
    connection.execute(f"CREATE SCHEMA {keys}")
    _look_up(connection, keys, groups, {table: columns for table, (_, columns) in tables.items()})
    # Diagnoses come first: others are narrowed by them.
    for table in sorted(tables, key=lambda table: table != "diagnoses"):
        where, columns = tables[table]
        condition = rule(catalogue, table, columns)
        shown = [f"nullif({column}, {column}) AS {column}" for column in map(name, REDACTED.get(table, ()))]
        if _is_machines(columns) and condition != "false":
            shown.append(_own_owner(keys, columns))
        chosen = f"* REPLACE ({', '.join(shown)})" if shown else "*"
        rows = f"SELECT {chosen} FROM {where}.main.{name(table)} WHERE {condition}"
        connection.execute(f"CREATE VIEW {catalogue}.main.{name(table)} AS {rows}")


def _look_up(connection: Connection, keys: str, groups: Collection[str], tables: Mapping[str, list[str]]) -> None:
    names = ", ".join(text(group) for group in sorted(groups)) or "NULL"
    jobs = SQL["jobs"].format(names=names) if "silver_jobs" in tables else SQL["no_jobs"]
    connection.execute(f"CREATE TABLE {keys}.every AS {jobs}")
    for table, query in TABLES.items():
        connection.execute(f"CREATE TABLE {keys}.{table} AS {query.format(keys=keys)}")
    connection.execute(f"DROP TABLE {keys}.every")
    of_theirs = f"WHERE job_key IN (FROM {keys}.jobs)"
    workers = f"SELECT DISTINCT worker_key FROM lake.main.silver_instances {of_theirs}"
    owners = f"SELECT DISTINCT cluster_id, owner_kind, owner_id FROM lake.main.gold_job_energy {of_theirs}"
    if "silver_instances" not in tables:
        workers = "SELECT 0::BIGINT AS worker_key WHERE false"
    if "gold_job_energy" not in tables:
        owners = "SELECT '' AS cluster_id, '' AS owner_kind, '' AS owner_id WHERE false"
    connection.execute(f"CREATE TABLE {keys}.workers AS {workers}")
    connection.execute(f"CREATE TABLE {keys}.owners AS {owners}")


def rule(catalogue: str, table: str, columns: Collection[str]) -> str:
    """The condition for the visible rows of a table: the first rule that applies."""
    keys = f"{catalogue}.{KEYS}"
    named = NAMING.intersection(columns).difference(REDACTED.get(table, ()), OWNERS if _is_machines(columns) else ())
    rules = (
        (table in OPEN, "true"),
        (table.startswith("bronze_"), "false"),
        ("job_key" in columns, f"job_key IN (FROM {keys}.jobs)"),
        ("worker_key" in columns, f"worker_key IN (FROM {keys}.workers)"),
        ("job_id" in columns, _about(keys, columns)),
        ("diagnosis_id" in columns, f"diagnosis_id IN (SELECT diagnosis_id FROM {catalogue}.main.diagnoses)"),
        ("user_id" in columns or "group_id" in columns, _named(keys, columns)),
        ("owner_id" in columns and "command" in columns, _owned(keys, columns)),
        (table.startswith(("silver_", "gold_")) and not named, "true"),
    )
    return next((condition for applies, condition in rules if applies), "false")


def _about(keys: str, columns: Collection[str]) -> str:
    """Rows of the journal: about a job of theirs, a user who is theirs, or a cluster's day."""
    by_job = (
        f"((cluster_id, job_id) IN (FROM {keys}.job_ids)"
        f" OR (cluster_id IS NULL AND job_id IN (FROM {keys}.lone_job_ids)))"
    )
    if "subject" not in columns:
        return by_job
    by_user = (
        f"((cluster_id, subject) IN (FROM {keys}.users)"
        f" OR (cluster_id IS NULL AND subject IN (FROM {keys}.lone_users)))"
    )
    kinds = ", ".join(text(kind) for kind in CLUSTER_KINDS)
    return f"({by_job} OR (job_id IS NULL AND node IS NULL AND ({by_user} OR kind IN ({kinds}))))"


def _named(keys: str, columns: Collection[str]) -> str:
    """Sums by user or group; the row of no user and no group is for everyone."""
    user, group = "coalesce(user_id, '')", "coalesce(group_id, '')"
    if "user_id" in columns and "group_id" in columns:
        theirs = f"(cluster_id, {user}, {group}) IN (FROM {keys}.pairs)"
        return f"({theirs} OR (user_id IS NULL AND group_id IS NULL))"
    if "user_id" in columns:
        return f"((cluster_id, {user}) IN (FROM {keys}.users) OR user_id IS NULL)"
    return f"((cluster_id, {group}) IN (FROM {keys}.groups) OR group_id IS NULL)"


def _is_machines(columns: Collection[str]) -> bool:
    """The rows of a machine are for everyone; who held it is not."""
    return not OWNERS.isdisjoint(columns) and "command" not in columns and "job_key" not in columns


def _owned(keys: str, columns: Collection[str]) -> str:
    kind = "owner_kind" if "owner_kind" in columns else "idle_owner_kind"
    return f"(cluster_id, {kind}, {kind.replace('kind', 'id')}) IN (FROM {keys}.owners)"


def _own_owner(keys: str, columns: Collection[str]) -> str:
    (owner,) = OWNERS.intersection(columns)
    return f"CASE WHEN {_owned(keys, columns)} THEN {owner} END AS {owner}"
