"""A real Prometheus on loopback, where the package is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.scoring.servers import RealPrometheus, backfill, free_port, is_installed, running

__all__ = ["RealPrometheus", "free_port", "needs_prometheus", "running", "write_history"]
needs_prometheus = pytest.mark.skipif(not is_installed(), reason="needs the Debian package prometheus")


def write_history(folder: Path, page: str) -> None:
    """The samples of an OpenMetrics page, as the server stores them."""
    (folder / "history.om").write_text(page)
    backfill(folder, [folder / "history.om"])
