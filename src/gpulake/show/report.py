"""Reports as one HTML file: the overview (findings, plots, data behind the numbers) and the efficiency card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpulake.core import ledger, words
from gpulake.core.ledger import BUCKETS, HELD
from gpulake.lake import LakeReader
from gpulake.show import card_text, plots
from gpulake.show.catalogue import BRONZE
from gpulake.show.efficiency import Card
from gpulake.show.observed import OBSERVED, Observed
from gpulake.show.page import write_page

_HELD = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}_gpu_hours" for bucket in HELD)
_BUCKETS = ", ".join(f"sum({bucket}_gpu_hours) AS {bucket}" for bucket in BUCKETS)
HOLDERS = f"""
SELECT user_id, {_HELD} FROM gold_ledger_daily WHERE user_id IS NOT NULL
GROUP BY user_id ORDER BY idle_gpu_hours DESC, user_id
"""
LEDGER = f"SELECT dt AS day, {_BUCKETS} FROM gold_ledger_hourly GROUP BY dt ORDER BY dt"
NEEDED = {
    "findings",
    "gold_cluster_util_daily",
    "gold_cluster_util_daily_scored",
    "gold_jobs_daily",
    "gold_ledger_daily",
    "gold_ledger_hourly",
    "silver_clusters",
}
TESTS = "SELECT status, count(*) AS tests FROM test_results GROUP BY status ORDER BY status"


def write_report(reader: LakeReader, path: Path) -> None:
    """Needs a whole build; writes the file in one step."""
    reader.need(NEEDED)
    write_page(path, "report.html", figures(reader), "--report", **_content(reader))


def write_card(card: Card, path: Path) -> None:
    content = {"ledger": ledger, "colours": plots.BUCKET_COLOURS, "words": words, "text": card_text}
    figures = {"days": plots.buckets(card.days)}
    write_page(path, "card.html", figures, "--out", card=card, clusters=card.clusters, **content)


def figures(reader: LakeReader) -> dict[str, plots.Figure]:
    days = reader.rows("SELECT * FROM gold_cluster_util_daily ORDER BY dt")
    scored = reader.rows("SELECT * FROM gold_cluster_util_daily_scored ORDER BY dt")
    return {
        "utilisation": plots.utilisation(days, scored),
        "ledger": plots.buckets(reader.rows(LEDGER)),
        "holders": plots.holders(reader.rows(HOLDERS), "user_id", by="idle_gpu_hours"),
        "jobs": plots.jobs(reader.rows("SELECT * FROM gold_jobs_daily ORDER BY dt")),
    }


def _content(reader: LakeReader) -> dict[str, Any]:
    figures = [
        (
            "Utilisation",
            "Weighted by time, per GPU, of what was observed. Hollow: poorly covered days, which are not judged. "
            "gold_cluster_util_daily_scored says in why_they_differ why our flag and that of the forest differ.",
            "utilisation",
        ),
        (
            "Where the GPU-hours went",
            "Each GPU-hour of capacity in the time under observation is in one bucket; gold_ledger_buckets says what "
            "it means, and within which bounds it is known. What failed, timed out or was interrupted: lost at most.",
            "ledger",
        ),
        ("Who holds most idle GPU-hours", "What became of all that they held; lost is an upper bound.", "holders"),
        ("How jobs end", "By the day of their end, in the time zone of the cluster.", "jobs"),
    ]
    return {
        "clusters": [Observed(**row) for row in reader.rows(f"{OBSERVED} ORDER BY cluster_id")],
        "findings": reader.rows("SELECT * FROM findings ORDER BY rank"),
        "figures": figures,
        "landed": reader.rows(BRONZE),
        "tests": reader.rows(TESTS),
        "build": reader.rows("SELECT * FROM build_info")[0],
    }
