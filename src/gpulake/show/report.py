"""The overview as one HTML file: findings first, then the plots, then what the numbers rest on. Works offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpulake.lake import Reader
from gpulake.show import plots
from gpulake.show.catalogue import BRONZE
from gpulake.show.page import need, write_page

HOLDERS = """
SELECT
    user_id, sum(used_gpu_hours) AS used, sum(idle_gpu_hours + under_used_gpu_hours) AS idle,
    sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved
FROM gold_user_gpu_usage_daily GROUP BY user_id ORDER BY idle DESC, user_id
"""
LEDGER = """
SELECT
    dt AS day, sum(used_gpu_hours) AS productive, sum(under_used_gpu_hours) AS under_used,
    sum(idle_gpu_hours) AS idle, sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved,
    sum(unallocated_gpu_hours) AS unallocated, sum(down_gpu_hours) AS down
FROM gold_ledger_hourly GROUP BY dt ORDER BY dt
"""
NEEDED = {
    "findings",
    "gold_cluster_util_daily",
    "gold_cluster_util_daily_scored",
    "gold_jobs_daily",
    "gold_ledger_hourly",
    "gold_user_gpu_usage_daily",
}
TESTS = "SELECT status, count(*) AS tests FROM test_results GROUP BY status ORDER BY status"


def write_report(reader: Reader, path: Path) -> None:
    """Needs a whole build; writes the file in one step."""
    need(reader, NEEDED)
    write_page(path, "report.html", _figures(reader), "--report", **_content(reader))


def _rows(reader: Reader, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reader.query(query).to_pylist()
    return found


def _figures(reader: Reader) -> dict[str, plots.Figure]:
    days = _rows(reader, "SELECT * FROM gold_cluster_util_daily ORDER BY dt")
    scored = _rows(reader, "SELECT * FROM gold_cluster_util_daily_scored ORDER BY dt")
    return {
        "utilisation": plots.utilisation(days, scored),
        "ledger": plots.buckets(_rows(reader, LEDGER)),
        "holders": plots.holders(_rows(reader, HOLDERS)),
        "jobs": plots.jobs(_rows(reader, "SELECT * FROM gold_jobs_daily ORDER BY dt")),
    }


def _content(reader: Reader) -> dict[str, Any]:
    figures = [
        (
            "Utilisation",
            "Weighted by time, per GPU, of what was observed. Hollow: poorly covered days, which are not judged. "
            "Why a flag of ours and one of the forest differ is told in gold_cluster_util_daily_scored.",
            "utilisation",
        ),
        (
            "Where the GPU-hours went",
            "Each GPU-hour of capacity is in one bucket: what it means is told in gold_ledger_buckets.",
            "ledger",
        ),
        ("Who holds idle GPUs", "What became of the GPU-hours that they held.", "holders"),
        ("How jobs end", "By the day of their end, in the trace's own time zone.", "jobs"),
    ]
    return {
        "findings": _rows(reader, "SELECT * FROM findings ORDER BY rank"),
        "figures": figures,
        "landed": _rows(reader, BRONZE),
        "tests": _rows(reader, TESTS),
        "build": _rows(reader, "SELECT * FROM build_info")[0],
    }
