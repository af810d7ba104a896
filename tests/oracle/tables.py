"""Each table that is compared: the columns that name a row, and the oracle's function that says all the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from oracle import ledger, marts, usage
from oracle.comparing import Product, Row, Rows, differences, hours_of, is_same, numbered
from oracle.ledger import BUCKETS, Book
from oracle.outages import POOL, place_of

OF_HOURS = (*BUCKETS, "capacity", "lost", "lost_at_least", "inferred", "inferred_lost")
OF_MACHINE_HOURS = (*OF_HOURS, "recorded_down", "overcommitted")
# Keys of machines, jobs and tasks are told by name.
ATTEMPT = ("job_key", "task_key", "machine_key", "attempt")


def clusters(book: Book) -> Rows:
    return {
        (): {
            "time_zone": book.facts.zone,
            "observed_from": book.observed_from,
            "observed_until": book.observed_until,
            "observed_basis": book.observed_basis,
            "has_jobs": True,
            "unknown_demand_ratio": ledger.unknown_demand_ratio(book.facts),
            "hour_shift_seconds": 1800 if book.facts.zone == "Asia/Kolkata" else 0,
            "is_generated": book.facts.cluster == "synth",
        }
    }


def holdings(book: Book) -> Rows:
    found: dict[tuple[object, ...], list[Row]] = {}
    for one in book.holdings:
        attempt = one.attempt
        if attempt.gpus is None:
            continue
        key = attempt.job.job_id, attempt.task.name, place_of(book.facts, attempt.machine), attempt.number
        row: Row = {
            "gpu_type": one.gpu_type(book.facts),
            "status": attempt.status,
            "gpus": attempt.gpus,
            "used_gpus": attempt.used_gpus,
            "bucket": one.bucket,
            "use_bucket": one.use_bucket,
            "held_from": one.held_from,
            "held_until": one.held_until,
            "held_seconds": float(one.span[1] - one.span[0]) if one.span else 0.0,
            "start_basis": one.start_basis,
            "end_basis": one.end_basis,
            "is_inferred": one.is_inferred,
            "lost_from": one.lost_from,
            "has_checkpoint": one.has_checkpoint,
        }
        found.setdefault(key, []).append(row)
    return numbered(found)


def capacity(book: Book) -> Rows:
    return {
        (machine,): {
            # Of machines that only jobs show, names are not kept.
            "machine_id": machine if (one.basis == "inventory" and machine != POOL) or one.counted_from else None,
            "gpu_type": one.gpu_type,
            "gpus": one.gpus,
            "basis": one.basis,
            "counted_from": one.counted_from,
        }
        for machine, one in book.capacity.items()
    }


def outages(book: Book) -> Rows:
    found: dict[tuple[object, ...], list[Row]] = {}
    for one in book.outages:
        found.setdefault((one.machine, one.basis), []).append({"started_at": one.started, "ended_at": one.ended})
    return numbered(found)


def machine_hours(book: Book) -> Rows:
    days = {hour.started: hour.day for hour in book.hours}
    return {
        (machine, started): {
            "dt": days[started],
            "gpu_type": ledger.gpu_type_of(book, machine),
            **hours_of(row, OF_MACHINE_HOURS),
        }
        for (machine, started), row in book.machine_hours.items()
    }


def ledger_hourly(book: Book) -> Rows:
    days: dict[object, object] = {hour.started: hour.day for hour in book.hours}
    return {key: {"dt": days[key[0]], **hours_of(row, OF_MACHINE_HOURS)} for key, row in ledger.hourly(book).items()}


def ledger_daily(book: Book) -> Rows:
    return {key: hours_of(row, OF_HOURS) for key, row in ledger.daily(book).items()}


def ledger_buckets(book: Book) -> Rows:
    return {key: {"rank": rank, **row} for rank, (key, row) in enumerate(ledger.buckets(book).items(), start=1)}


TABLES: dict[str, tuple[tuple[str, ...], Callable[[Book], Rows]]] = {
    "silver_clusters": ((), clusters),
    "silver_holdings": (ATTEMPT, holdings),
    "silver_capacity": (("machine_key",), capacity),
    "silver_outages": (("machine_key", "basis"), outages),
    "gold_machine_hours": (("machine_key", "started_at"), machine_hours),
    "gold_ledger_hourly": (("started_at", "gpu_type"), ledger_hourly),
    "gold_ledger_daily": (("dt", "gpu_type", "user_id", "group_id", "account_id", "workload"), ledger_daily),
    "gold_ledger_buckets": (("bucket",), ledger_buckets),
    "gold_job_efficiency_daily": (("dt", "job_id", "gpu_type"), usage.job_efficiency),
    "gold_user_gpu_usage_daily": (("user_id", "dt"), usage.user_usage),
    "gold_jobs_daily": (("dt",), marts.jobs_daily),
    "gold_group_recurrence": (("group_id",), marts.group_recurrence),
    "gold_failures_daily": (("dt", "status", "gpu_type"), marts.failures_daily),
    "gold_demand_hourly": (("started_at", "gpu_type"), marts.demand_hourly),
    "gold_queue_waits": (("gpu_type", "request_size"), marts.queue_waits),
    "gold_energy_daily": (("dt", "gpu_type"), marts.energy_daily),
    "gold_goodput_daily": (("dt", "request_size"), marts.goodput_daily),
    "gold_lemon_machines": (("machine_key",), marts.lemon_machines),
}


def all_differences(product: Product, book: Book, names: Collection[str] = TABLES.keys()) -> Iterator[str]:
    for table, (keys, oracle) in TABLES.items():
        if table in names:
            got: Rows = product.keyed(table, *keys)
            expected = oracle(book)
            if table == "gold_lemon_machines":
                _settle_ranks(got, expected)
            if table == "gold_demand_hourly":
                got, expected = _without_zeros(got), _without_zeros(expected)
            yield from differences(book.facts, table, got, expected)


def _without_zeros(rows: Rows) -> Rows:
    """A row of zeros says as much as none."""
    return {
        key: row
        for key, row in rows.items()
        if any(abs(value) > 1e-9 for value in row.values() if isinstance(value, int | float))
    }


def _settle_ranks(got: Rows, expected: Rows) -> None:
    """The worst first, those without peers last; which of two equals comes first is nobody's business."""

    def badness(excess: object) -> float:
        return -excess if isinstance(excess, float) else float("inf")

    order = sorted((row["excess_deviations"] for row in expected.values()), key=badness)
    for key, row in expected.items():
        excess = row["excess_deviations"]
        ranks = [rank for rank, other in enumerate(order, start=1) if is_same(other, excess)]
        theirs = got.get(key, {}).get("rank")
        row["rank"] = theirs if theirs in ranks else ranks[0]
