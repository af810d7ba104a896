"""The past of a cluster from the lake's tables: its jobs and machines as arrays, and what of them is inferred."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.core.packaged import built_tables, queries
from gpulake.lake import LakeReader
from gpulake.replay.kernel.arrays import GPU, Ints
from gpulake.replay.prediction import past_only
from gpulake.replay.trace import Machines, Trace, whole_above_one

SQL = queries("gpulake.replay", "past.sql")
OPTIONAL = {"silver_partitions"}
WEEK_SECONDS = 7 * 86_400
LEAST_JOBS = 20
SIZES = ((1, "below 1"), (2, "1"), (9, "2 to 8"), (65, "9 to 64"))  # GPUs, from which the next begins


@dataclass(frozen=True)
class Past:
    """One entry a run (attempt) that held GPUs, by eligibility. Times are seconds since 1970."""

    cluster: str
    begin: int
    until: int
    trace: Trace  # with times since 1970
    machines: Machines  # with outages since 1970
    start: Ints  # as recorded
    end: Ints  # as recorded; a run that did not end within the records ends after them
    is_idle: NDArray[np.bool_]
    is_predicted: NDArray[np.bool_]  # whether the past said how long it would run
    job_id: NDArray[np.str_]
    user_id: NDArray[np.str_]
    gpu_type: NDArray[np.str_]
    queue: NDArray[np.str_]
    lost: tuple[tuple[int, float], ...]  # attempts that an outage ended: when, and the GPU-seconds that they held
    inferred: dict[str, int]  # what was inferred or left out, and how often
    machine_ids: tuple[str, ...] = ()  # of the machines

    def __len__(self) -> int:
        return len(self.trace)

    @property
    def wait(self) -> Ints:
        return np.maximum(0, np.minimum(self.start, self.until) - self.trace.submit)

    @property
    def size(self) -> NDArray[np.str_]:
        return np.array([size_of(gpus) for gpus in self.trace.milli / GPU])

    def kept(self, is_kept: NDArray[np.bool_]) -> Past:
        return replace(self.taken(is_kept), trace=self.trace.kept(is_kept))

    def taken(self, places: NDArray[Any]) -> Past:
        """Those runs, in that order; not their trace."""
        columns: dict[str, Any] = {
            name: value[places] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **columns)


def size_of(gpus: float) -> str:
    return next((words for bound, words in SIZES if gpus < bound), "65 and more")


def read_past(reader: LakeReader, cluster: str) -> Past:
    reader.need(built_tables(SQL) - OPTIONAL)
    window = reader.rows(SQL["window"], cluster=cluster)[0]
    runs = reader.query(SQL["runs"], cluster=cluster)
    if runs.num_rows < LEAST_JOBS:
        raise InputError(
            f"{cluster} has {runs.num_rows} runs that held GPUs; a simulation needs {LEAST_JOBS}",
            "land the records of its jobs, and build",
        )
    column = {name: runs[name].to_numpy() for name in runs.column_names}
    found = _past(reader, cluster, window, column)
    waiting = reader.rows(SQL["waiting"], cluster=cluster)[0]["jobs"]
    found.inferred["left out: jobs that never started"] = waiting
    return found


def _past(reader: LakeReader, cluster: str, window: dict[str, Any], column: dict[str, NDArray[Any]]) -> Past:
    begin, until = int(window["begin_s"]), int(window["end_s"]) + 1
    is_lost = column["is_lost"].astype(bool)
    kept = ~is_lost & (column["end_s"] > begin) & (column["start_s"] < until)
    held = column["gpus"] * (column["end_s"] - column["start_s"])
    lost = tuple(zip(column["end_s"][is_lost].astype(int).tolist(), held[is_lost].tolist(), strict=True))
    column = {name: values[kept] for name, values in column.items()}
    submit = _eligible(column)
    order = np.lexsort([column["attempt"], column["task_key"], submit])
    column, submit = {name: values[order] for name, values in column.items()}, submit[order]
    start, end = column["start_s"].astype(np.int64), np.ceil(column["end_s"]).astype(np.int64)
    is_censored = column["is_censored"].astype(bool)
    # A run that has not ended is not seen to end: it holds its GPUs to the end of the time.
    end = np.where(is_censored, np.maximum(end, until) + (until - begin), end)
    groups, users = column["group_id"].tolist(), column["user_id"].tolist()
    predicted, is_predicted = past_only(submit, start, end, groups, users)
    requests = [f"{group}\n{gpus:g}" for group, gpus in zip(groups, column["gpus"].tolist(), strict=True)]
    nobody = [""] * len(users)
    alone = {
        name: past_only(submit, start, end, keys, nobody)[0]
        for name, keys in (("by_user", users), ("by_group", groups), ("by_request", requests))
    }
    estimate, is_asked = _asked(reader, cluster, column["job_id"], predicted)
    machines, rows, allowed, machine_ids = _machines(reader, cluster, column)
    part = whole_above_one(np.round(column["gpus"] / column["instances"] * GPU).astype(np.int64))
    trace = Trace.of(
        submit,
        column["instances"],
        part,
        end - start,
        estimate=estimate,
        predicted=predicted,
        **alone,
        allowed=allowed,
        account=np.unique(column["account_id"].astype(str), return_inverse=True)[1],
        rank=_ranks(column["qos_id"].astype(str), start - submit),
        after=_before(column["task_key"], column["attempt"]),
    )
    inferred = {
        "begin or end of a run": int(column["is_inferred"].sum()),
        "GPU type: that of the machine that it ran on": int(column["is_type_inferred"].sum()),
        "expected run time: predicted, since no limit is known": int((~is_asked).sum()),
        "run that had not ended: holds its GPUs to the end": int(is_censored.sum()),
        "attempt that an outage ended: simulated instead": int(is_lost.sum()),
        "machines whose GPUs are the most ever held": rows,
    }
    return Past(
        cluster, begin, until, trace, machines, start, end, column["is_idle"].astype(bool), is_predicted,
        column["job_id"].astype(str), column["user_id"].astype(str), column["gpu_type"].astype(str),
        column["partition_id"].astype(str),
        lost, {words: count for words, count in inferred.items() if count}, machine_ids,
    )  # fmt: skip


def _eligible(column: dict[str, NDArray[Any]]) -> Ints:
    """From when a run could start: eligibility where known, else submission; a retry from the end of the try before."""
    start = column["start_s"]
    submit = np.where(np.isnan(column["submit_s"]), start, column["submit_s"])
    eligible = np.where(np.isnan(column["eligible_s"]), submit, column["eligible_s"])
    order = np.lexsort([column["attempt"], column["task_key"]])
    same = column["task_key"][order][1:] == column["task_key"][order][:-1]
    retry = order[1:][same]
    eligible[retry] = column["end_s"][order[:-1][same]]
    found: Ints = np.floor(np.minimum(eligible, start)).astype(np.int64)
    return found


def _before(task_key: NDArray[Any], attempt: NDArray[Any]) -> Ints:
    """Of a retry the place of the try before it; it may not come later in the order."""
    order = np.lexsort([attempt, task_key])
    after = np.full(len(task_key), -1, np.int64)
    same = task_key[order][1:] == task_key[order][:-1]
    after[order[1:][same]] = order[:-1][same]
    return np.where(after < np.arange(len(after)), after, -1)


def _asked(reader: LakeReader, cluster: str, job_id: NDArray[Any], predicted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    limits = {row["job_id"]: row["limit_s"] for row in reader.rows(SQL["limits"], cluster=cluster)}
    found = np.array([limits.get(job, 0) or 0 for job in job_id], np.int64)
    return np.where(found > 0, found, predicted), found > 0


def _ranks(qos: NDArray[np.str_], wait: Ints) -> Ints:
    """Qualities of service by their mean wait: nothing in the records says which of them goes first."""
    names, number = np.unique(qos, return_inverse=True)
    means = [float(wait[number == one].mean()) for one in range(len(names))]
    return np.argsort(np.argsort(means, kind="stable"))[number].astype(np.int64)


def _machines(
    reader: LakeReader, cluster: str, column: dict[str, NDArray[Any]]
) -> tuple[Machines, int, Ints, tuple[str, ...]]:
    """Machines, how many of them are guessed, the row of machines that each run may use, and the machines' ids."""
    rows = reader.rows(SQL["machines"], cluster=cluster)
    if not rows:
        raise InputError(f"{cluster} has no known GPUs", "land an inventory, or set clusters.<name>.gpus")
    number = {row["machine_key"]: place for place, row in enumerate(rows)}
    types = [row["gpu_type"] for row in rows]
    partitions = {}
    if "silver_partitions" in reader.tables():
        for row in reader.rows(SQL["partitions"], cluster=cluster):
            listed = set((row["nodes"] or "").split(","))
            partitions[row["partition_id"]] = np.array([one["machine_id"] in listed for one in rows])
    pairs = np.char.add(np.char.add(column["gpu_type"].astype(str), "\n"), column["partition_id"].astype(str))
    names, allowed = np.unique(pairs, return_inverse=True)
    allow = np.zeros((len(names), len(rows)), np.bool_)
    for place, pair in enumerate(names):
        kind, partition = str(pair).split("\n", 1)
        of_type = np.array([one == kind for one in types])
        fits = of_type if kind and of_type.any() else np.ones(len(rows), np.bool_)
        within = partitions.get(partition)
        allow[place] = fits & within if within is not None and (fits & within).any() else fits
    gpus = np.array([row["gpus"] for row in rows], np.int64)
    outages = [row for row in reader.rows(SQL["outages"], cluster=cluster) if row["machine_key"] in number]
    machines = Machines.of(gpus, allow=allow, types=types, tier=(gpus == gpus.max()) & (gpus.min() < gpus.max()))
    machines = machines.with_outages(
        [number[row["machine_key"]] for row in outages],
        [int(row["start_s"]) for row in outages],
        [int(row["end_s"]) + 1 for row in outages],
    )
    guessed = sum(row["basis"] == "peak" for row in rows)
    return machines, guessed, allowed.astype(np.int64), tuple(row["machine_id"] for row in rows)
