"""Parts of the service on the page of data quality: lag, rates and errors, of one process or of roles."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fastapi.testclient import TestClient

from gpulake.core.service_state import PartState, ServiceState, the_only_one
from show.web.test_web_changes import EVE, client, page

__all__ = ["client"]
AT = datetime(2026, 3, 31, 10, 0, 5, tzinfo=UTC)
LAGGING = PartState("ingest gpus", "failing", 1, 3, 120_000, 2000.5, "2026-03-31T10:00:00+00:00", 4_711, AT)


def test_the_parts_of_the_service_are_shown_with_their_lag_rates_and_errors(client: TestClient, tmp_path: Path) -> None:
    assert 'data-source="/service"' in page(client, "/quality")[1]
    assert "no gpulake run has worked on" in page(client, "/service")[1]
    LAGGING.error = "<b>no answer from the registry"
    state = ServiceState(1, AT, AT, [LAGGING, PartState("build")], role="ingest")
    with the_only_one(tmp_path / "lake", "ingest"):
        state.write(tmp_path / "lake")
        status, text = page(client, "/service")
    assert status == 200
    for words in ("ingest gpus", "120,000", "2,000.5", "4,711", "2026-03-31 10:00:05", "&lt;b&gt;no answer from the"):
        assert f">{words}" in text, words
    assert "is not running" not in text
    assert "gpulake run ingest is not running" in page(client, "/service")[1]
    assert "4,711" not in page(client, "/service", EVE)[1]
    assert client.get("/service").status_code == 401
