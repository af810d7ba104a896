"""The overview as one HTML file: findings first, then the plots, then what the numbers rest on. Works offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpulake.core.errors import LakeError
from gpulake.lake import Reader
from gpulake.show import plots
from gpulake.show.catalogue import BRONZE
from gpulake.show.page import write_page

HOLDERS = """
SELECT
    user_id, sum(productive_gpu_hours) AS used, sum(idle_gpu_hours + under_used_gpu_hours) AS idle,
    sum(lost_gpu_hours) AS lost, sum(unobserved_gpu_hours) AS unobserved
FROM gold_user_gpu_usage_daily GROUP BY user_id ORDER BY idle DESC, user_id
"""
NEEDED = {
    "findings",
    "gold_cluster_util_daily",
    "gold_cluster_util_daily_scored",
    "gold_jobs_daily",
    "gold_user_gpu_usage_daily",
}
TESTS = "SELECT status, count(*) AS tests FROM test_results GROUP BY status ORDER BY status"


def write_report(reader: Reader, path: Path) -> None:
    """Needs a whole build; writes the file in one step."""
    built = {row["name"] for row in reader.query("SHOW TABLES").to_pylist()}
    if missing := sorted(NEEDED - built):
        raise LakeError(f"no whole build yet: {', '.join(missing)} missing", "run: gpulake build")
    content = _content(reader)
    write_page(path, "report.html", content.pop("plots"), **content)


def _content(reader: Reader) -> dict[str, Any]:
    def rows(query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = reader.query(query).to_pylist()
        return found

    days = rows("SELECT * FROM gold_cluster_util_daily ORDER BY dt")
    scored = rows("SELECT * FROM gold_cluster_util_daily_scored ORDER BY dt")
    figures = [
        ("Utilisation", "Weighted by time, per GPU, of what was observed. Hollow: poorly covered days.", "utilisation"),
        ("Where the GPU-hours went", "Capacity of each day.", "coverage"),
        ("Who holds idle GPUs", "What became of the GPU-hours that they held.", "holders"),
        ("How jobs end", "By the day of their end, in the trace's own time zone.", "jobs"),
    ]
    drawn = {
        "utilisation": plots.utilisation(days, scored),
        "coverage": plots.coverage([day for day in days if day["capacity_gpu_hours"]]),
        "holders": plots.holders(rows(HOLDERS)),
        "jobs": plots.jobs(rows("SELECT * FROM gold_jobs_daily ORDER BY dt")),
    }
    return {
        "findings": rows("SELECT * FROM findings ORDER BY rank"),
        "figures": figures,
        "plots": drawn,
        "landed": rows(BRONZE),
        "tests": rows(TESTS),
        "build": rows("SELECT * FROM build_info")[0],
    }
