"""Single GPUs by telemetry: hot, throttled, held and idle, broken."""

from __future__ import annotations

from gpulake.show.web.questions import Question

_OF = "cluster_id, dt AS day, node_id AS node, gpu_index, gpu_name"
_WHERE = "{days} AND {cluster}"

QUESTIONS = (
    Question(
        name="hot_gpus",
        title="GPUs that were hot",
        sql=f"""
SELECT {_OF}, hot_hours, max_celsius, p95_celsius, threshold_celsius, node_median_celsius, fleet_median_celsius,
    observed_hours
FROM gold_hot_gpus_daily WHERE {_WHERE} AND hot_hours > 0
""",
        order="hot_hours DESC, max_celsius DESC, day, cluster_id, node, gpu_index",
        about="By day, the longest above their threshold first. The medians are those of the other GPUs on that day.",
    ),
    Question(
        name="throttled_gpus",
        title="Throttled GPUs",
        sql=f"""
SELECT {_OF}, throttled_ratio, throttled_hours, power_hours, thermal_hours, hardware_hours, settings_hours,
    observed_hours
FROM gold_throttled_gpus_daily WHERE {_WHERE} AND throttled_hours > 0
""",
        order="throttled_hours DESC, day, cluster_id, node, gpu_index",
        about="Hours of a day in which a GPU was throttled, by reason. Several reasons may apply at once.",
    ),
    Question(
        name="idle_gpus",
        title="GPUs that were held and idle",
        sql=f"""
SELECT {_OF}, held_idle_hours, held_hours, idle_ratio, held_empty_hours, idle_owner_kind, idle_owner_id,
    held_by_unknown_hours, unknown_hours, free_hours, observed_hours
FROM gold_idle_gpus_daily WHERE {_WHERE} AND held_idle_hours > 0
""",
        order="held_idle_hours DESC, day, cluster_id, node, gpu_index",
        about=(
            "Hours of a day in which a GPU was held and idle, and who held it for most of them. Held by unknown: "
            "it was in use without a known owner. Unknown: not known whether it was held."
        ),
    ),
    Question(
        name="gpu_errors",
        title="Errors of GPUs",
        sql=f"""
SELECT {_OF}, serious_errors, errors, xid_counts, ecc_uncorrected, ecc_corrected, pcie_replays, nvlink_errors,
    newly_remapped_uncorrectable, has_remap_pending, has_remap_failure, is_spike
FROM gold_gpu_errors_daily WHERE {_WHERE} AND errors > 0
""",
        order="serious_errors DESC, errors DESC, day, cluster_id, node, gpu_index",
        about="Counts of a day. Serious: those that cost work, such as Xid errors and memory errors not corrected.",
    ),
)
