"""What a server may answer: each sample lands once, or the pull ends with a clear error before the gap."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import rows_of
from gpulake.core.clock import FrozenClock
from gpulake.core.config import Config
from gpulake.core.errors import ConfigError, PullError
from gpulake.flow import Flow
from gpulake.flow.pulling import PullResult
from gpulake.pull.prometheus import PrometheusPull
from live_server import certificates
from pull.scripted import Scripted, half, limit_of, refuse, scripted

__all__ = ["certificates"]
UTIL = "DCGM_FI_DEV_GPU_UTIL"
HALF_AN_HOUR = timedelta(minutes=30)
STEPS = 60  # of half an hour


def gpu(number: int, metric: str = UTIL) -> dict[str, str]:
    return {"__name__": metric, "UUID": f"GPU-{number}", "gpu": str(number), "instance": "n1:9400"}


SAMPLES = "SELECT gpu_id, epoch_ms(sampled_at) AS at, round(busy_ratio * 100, 9) AS percent FROM silver_gpu_samples"


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


class Pulling:
    def __init__(self, server: Scripted, config: Config, clock: FrozenClock) -> None:
        self.server = server
        self.clock = clock
        self.waits: list[float] = []
        self.flow = Flow(config, clock, wait=self.waits.append)

    def pull(self, since: timedelta | None = HALF_AN_HOUR, is_again: bool = False, **options: Any) -> PullResult:
        source = PrometheusPull(self.server.url, environment=options.pop("environment", {}), **options)
        return self.flow.pull(source, self.clock.now() - since if since else None, is_again=is_again)

    def rows(self) -> list[tuple[str, float, float]]:
        rows = rows_of(self.flow.lake, "SELECT labels ->> 'UUID' AS uuid, ts_ms, value FROM bronze_prometheus_samples")
        return sorted((str(row["uuid"]), _number(row["ts_ms"]), _number(row["value"])) for row in rows)

    def watermark(self) -> str:
        return str(max(row["until_at"] for row in self.flow.lake.journal("pulls")))


@pytest.fixture
def pulling(config: Config, clock: FrozenClock) -> Iterator[Pulling]:
    """Two GPUs, of which one is idle."""
    with scripted(Scripted([(gpu(0), lambda at: str(at // 30 % 90)), (gpu(1), lambda _: "0")])) as server:
        yield Pulling(server, config, clock)


def grid(clock: FrozenClock, steps: int = STEPS) -> list[int]:
    """The times of half an hour, in seconds."""
    last = int(clock.now().timestamp()) // 30 * 30
    return [last - 30 * step for step in reversed(range(steps))]


def whole(clock: FrozenClock) -> list[tuple[str, float, float]]:
    busy = [("GPU-0", at * 1000.0, at // 30 % 90 * 1.0) for at in grid(clock)]
    return busy + [("GPU-1", at * 1000.0, 0.0) for at in grid(clock)]


def test_every_sample_of_every_series_lands_with_its_time(pulling: Pulling, clock: FrozenClock) -> None:
    result = pulling.pull()
    assert (result.pieces, result.rows_landed, result.rows_quarantined) == (1, 2 * STEPS, 0)
    assert pulling.rows() == whole(clock)
    (asked,) = pulling.server.asked
    assert asked["query"].startswith('{__name__=~"DCGM_FI_.+|')
    assert (asked["partial_response"], asked["deny_partial_response"]) == ("false", "1")


def test_a_pull_goes_on_where_the_last_one_ended(pulling: Pulling, clock: FrozenClock) -> None:
    pulling.pull()
    clock.at += timedelta(minutes=10)
    pulling.server.now = clock.now()
    pulling.pull(since=None)
    first, second = pulling.server.asked
    assert int(second["start"]) == int(first["end"]) + 30 - 300  # an overlap of five minutes
    assert int(second["end"]) == grid(clock)[-1]


def test_answers_are_cut_to_a_size_and_give_the_same_rows(pulling: Pulling, clock: FrozenClock) -> None:
    result = pulling.pull(most_samples=20)
    assert result.pieces == STEPS // 10
    assert pulling.rows() == whole(clock)


@pytest.mark.parametrize(
    ("error", "words", "status"),
    [
        ("execution", "query processing would load too many samples into memory in query execution", 422),
        ("timeout", "query timed out in expression evaluation", 503),
        ("bad_data", "exceeded maximum resolution of 11,000 points per timeseries", 400),
        ("", "a proxy", 504),
    ],
)
def test_a_window_that_is_too_much_for_the_server_is_halved(
    pulling: Pulling, clock: FrozenClock, error: str, words: str, status: int
) -> None:
    pulling.server.judge = limit_of(8, error, words, status)
    pulling.pull()
    assert pulling.rows() == whole(clock)
    assert max((int(form["end"]) - int(form["start"])) // 30 + 1 for form in pulling.server.asked[-3:]) <= 16


def test_a_server_that_is_busy_or_cut_off_is_asked_again(pulling: Pulling, clock: FrozenClock) -> None:
    pulling.server.faults = [refuse(429, headers={"Retry-After": "7"}), refuse(503), half]
    pulling.pull()
    assert pulling.rows() == whole(clock)
    assert pulling.waits[0] == 7
    assert 1 <= pulling.waits[1] <= 2
    assert 2 <= pulling.waits[2] <= 4


def test_what_stays_unreadable_ends_the_pull_before_it_and_the_next_one_fills_the_gap(
    pulling: Pulling, clock: FrozenClock
) -> None:
    third = grid(clock)[20]

    def broken(path: str, form: dict[str, str]) -> Any:
        return refuse(500) if path.endswith("_range") and int(form["start"]) == third else None

    pulling.server.judge = broken
    with pytest.raises(PullError, match=r"answers 500 .*\(40 rows until 2026-01-02 02:4.* UTC have landed\)") as caught:
        pulling.pull(most_samples=20)
    assert caught.value.exit_code == 9
    assert len(pulling.rows()) == 40
    assert pulling.watermark() == "2026-01-02T02:44:30+00:00"
    pulling.server.judge = lambda *_: None
    pulling.pull(most_samples=20)
    assert sorted(set(pulling.rows())) == whole(clock)
    (run,) = [row for row in pulling.flow.lake.journal("runs") if row["step"] == "pull" and row["status"] == "failed"]
    assert "answers 500" in run["detail"]["error"]


@pytest.mark.slow
def test_a_crash_between_landing_and_watermark_changes_nothing_in_silver(
    pulling: Pulling, monkeypatch: pytest.MonkeyPatch, clock: FrozenClock
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("gpulake.flow.pulling._note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pulling.pull()
    assert pulling.rows() == whole(clock)
    assert pulling.flow.lake.journal("pulls") == []
    pulling.pull(most_samples=50)
    pulling.flow.build()
    found = rows_of(pulling.flow.lake, SAMPLES)
    told = sorted((str(row["gpu_id"]), _number(row["at"]), _number(row["percent"])) for row in found)
    assert told == whole(clock)


def test_nan_and_infinities_are_kept_and_what_dcgm_cannot_say_is_quarantined(
    pulling: Pulling, clock: FrozenClock
) -> None:
    odd = {0: "NaN", 1: "+Inf", 2: "4294967295", 3: "1e+06"}
    first = grid(clock)[0]
    names = {"__name__": "node_load1", "instance": "n1:9100"}
    pulling.server.series = [
        (names, lambda at: odd.get((at - first) // 30)),
        (gpu(0), lambda at: odd.get((at - first) // 30, "5")),
    ]
    result = pulling.pull()
    assert (result.rows_landed, result.rows_quarantined) == (4 + STEPS - 4, 4)
    found = rows_of(
        pulling.flow.lake,
        "SELECT value::VARCHAR AS value FROM bronze_prometheus_samples WHERE metric = 'node_load1' ORDER BY ts_ms",
    )
    assert [row["value"] for row in found] == ["nan", "inf", "4294967295.0", "1000000.0"]


@pytest.mark.slow
def test_a_counter_that_starts_again_lands_as_it_is(pulling: Pulling, clock: FrozenClock) -> None:
    reset = grid(clock)[30]
    metric = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    pulling.server.series = [(gpu(0, metric), lambda at: str((at if at < reset else at - reset) * 1000))]
    pulling.pull()
    pulling.flow.build()
    (row,) = rows_of(pulling.flow.lake, "SELECT sum(energy_joules) AS joules FROM silver_gpu_samples")
    assert row["joules"] == pytest.approx(30 * (STEPS - 2))  # 1 J/s; the interval of the reset says nothing


def test_a_label_explosion_is_pulled_step_by_step_or_refused_in_words(pulling: Pulling) -> None:
    pulling.server.series = [(gpu(number), lambda _: "1") for number in range(300)]
    result = pulling.pull(since=timedelta(minutes=2), most_samples=300)
    assert (result.pieces, result.rows_landed) == (4, 300 * 4)
    with pytest.raises(PullError, match=r"300 series match at .*, more than the 299 of an answer"):
        pulling.pull(most_samples=299, is_again=True)


def test_series_that_appear_within_a_window_land_too(pulling: Pulling, clock: FrozenClock) -> None:
    """The count at its ends does not see them."""
    inside = set(grid(clock)[10:20])
    pulling.server.series.append((gpu(2), lambda at: "7" if at in inside else None))
    pulling.pull()
    expected = [("GPU-2", at * 1000.0, 7.0) for at in sorted(inside)]
    assert [row for row in pulling.rows() if row[0] == "GPU-2"] == expected


def test_a_time_without_samples_counts_as_pulled(pulling: Pulling) -> None:
    pulling.server.series = []
    result = pulling.pull()
    assert (result.pieces, result.rows_landed) == (1, 0)
    assert pulling.watermark() == "2026-01-02T03:04:30+00:00"


def test_a_clock_that_is_an_hour_off_is_said(pulling: Pulling) -> None:
    pulling.server.now += timedelta(hours=1)
    with pytest.raises(PullError, match=r"shows 2026-01-02 04:04:05.*, ours 2026-01-02 03:04:05.*: 3,600 s apart"):
        pulling.pull()
    assert pulling.server.asked == []


def test_a_server_that_is_slow_is_given_up_at_the_deadline(pulling: Pulling) -> None:
    """In answers that bring a byte now and then, too."""

    def slow(server: Scripted, handler: Any, form: dict[str, str]) -> None:  # noqa: ARG001 - of the others
        handler.send_response_only(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"{")
            time.sleep(0.05)

    pulling.server.judge = lambda path, _: slow if path.endswith("_range") else None
    with pytest.raises(PullError, match=r"no answer within 0\.1 seconds"):
        pulling.pull(since=timedelta(seconds=30), timeout_seconds=0.1)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (refuse(401), "answers 401 Unauthorized"),
        (
            refuse(302, headers={"Location": "https://login.example/oauth"}),
            r"a redirect to https://login\.example/oauth",
        ),
        (refuse(404), r"what answers at .* is no Prometheus \(nothing has landed\)"),
        (refuse(400, "bad_data", "1:12: parse error"), r"answers 400 Bad Request: 1:12: parse error \(nothing"),
        (lambda server, handler, _: server.send(handler, b"<html>"), "what answers at .* is no Prometheus"),
        (lambda server, handler, _: server.send(handler, b'{"status":"success"}'), "is no Prometheus"),
    ],
)
def test_what_is_no_prometheus_or_lets_nobody_in_is_said(pulling: Pulling, fault: Any, words: str) -> None:
    pulling.server.judge = lambda *_: fault
    with pytest.raises(PullError, match=words):
        pulling.pull()
    assert pulling.waits == []


def test_a_token_or_a_user_and_a_password_come_from_the_environment(pulling: Pulling) -> None:
    pulling.pull(environment={"GPULAKE_PROMETHEUS_TOKEN": "abc"})
    pulling.pull(environment={"GPULAKE_PROMETHEUS_USER": "ada", "GPULAKE_PROMETHEUS_PASSWORD": "x"}, is_again=True)
    assert {headers["authorization"] for headers in pulling.server.headers} == {"Bearer abc", "Basic YWRhOng="}
    with pytest.raises(ConfigError, match="--url holds more than a host and a path"):
        PrometheusPull("http://ada:secret@prometheus:9090")


def test_a_certificate_is_verified(
    config: Config, clock: FrozenClock, tmp_path: Path, certificates: Callable[..., None]
) -> None:
    certificates(tmp_path, "server")
    certificates(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with scripted(Scripted([(gpu(1), lambda _: "0")]), context) as server:
        pulling = Pulling(server, config, clock)
        with pytest.raises(PullError, match="its certificate does not verify"):
            pulling.pull()
        assert pulling.pull(ca_file=tmp_path / "ca.pem").rows_landed == STEPS
    with pytest.raises(ConfigError, match="cannot read the certificates in"):
        pulling.pull(ca_file=tmp_path / "server.key")
