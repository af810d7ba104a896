"""Runs the benchmark: prints what it measured beside the bars and what changed, then writes docs/performance.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import page, smoke
from bench.collector import collector
from bench.data import Bench
from bench.detection import detection
from bench.events import events
from bench.kafka_chaos import chaos
from bench.landing import landing
from bench.lines import as_text
from bench.log import log
from bench.measure import BenchError
from bench.pulling import pulling
from bench.refresh import refresh
from bench.service import service
from bench.serving import dashboard
from bench.smoke import Part
from bench.startup import startup
from bench.streaming import streaming
from bench.telemetry import full_telemetry, small_telemetry
from bench.week import week
from bench.whatif import whatif
from bench.whole import day, landing_alone, marts

OUT = Path(__file__).parent.resolve() / "out"
PARTS: dict[str, tuple[str, Part]] = {
    "refresh": ("Refresh, beside a pandas and dbt pipeline that makes the same tables", refresh),
    "trace": ("Landing and generating a trace", landing_alone),
    "marts": ("All tables, and the seven marts beside pandas", marts),
    "day": ("One more day", day),
    "startup": ("Start-up", startup),
    "landing": ("Landing text formats", landing),
    "collector": ("Collecting", collector),
    "log": ("Reading logs", log),
    "detection": ("Detection", detection),
    "dashboard": ("Dashboard", dashboard),
    "pull": ("Pulling from Prometheus", pulling),
    "stream": ("Landing a stream from Kafka", streaming),
    "chaos": ("Killing a stream from Kafka", chaos),
    "events": ("From an event to a message", events),
    "service": ("The service, idle and at work", service),
    "whatif": ("Simulating a cluster's past", whatif),
    "telemetry-week": ("Telemetry of a week", small_telemetry),
    "week": ("A week of 16,000 GPUs", week),
    "telemetry": ("Telemetry of 2,048 GPUs", full_telemetry),
}
BY_NAME_ONLY = ("telemetry", "stream", "chaos", "events", "service")  # more than ten minutes
SMOKE_PARTS = ("refresh", "marts", "day", "startup", "landing", "log", "dashboard", "telemetry-week")
TITLES = [smoke.TITLE, *(title for title, _ in PARTS.values())]


def main() -> int:
    options = _options()
    OUT.mkdir(exist_ok=True)
    bench = Bench(OUT, options.seed, options.fresh, is_smoke=options.smoke or options.record, seconds=options.seconds)
    parts = {name: PARTS[name][1] for name in SMOKE_PARTS}
    if options.record:
        smoke.record(bench, parts, TITLES)
        return 0
    if options.smoke:
        return smoke.compare(bench, parts)
    names = options.parts or [name for name in PARTS if name not in BY_NAME_ONLY]
    failed = [name for name in names if not _measure(bench, *PARTS[name])]
    if failed:
        print(f"error: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _measure(bench: Bench, title: str, part: Part) -> bool:
    """A part that fails leaves its section as it was, and the other parts run."""
    print(f"{title} …", file=sys.stderr)
    try:
        lines = list(part(bench))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    before = page.figures(page.read_sections(page.PAGE.read_text(encoding="utf-8")).get(title, ""))
    changes = page.changes(before, lines) or ["no change of more than a tenth"]
    print("\n".join([as_text(lines), f"against {page.PAGE.name}:", *changes, ""]))
    page.write({title: page.section(lines)}, TITLES)
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    for name, (title, _) in PARTS.items():
        words = f"only: {title.replace('%', '%%')}"
        parser.add_argument(f"--{name}", dest="parts", action="append_const", const=name, help=words)
    parser.add_argument("--smoke", action="store_true", help="few minutes; fails when a ratio of CPU times fell")
    parser.add_argument("--record", action="store_true", help="with --smoke: write the ratios instead of comparing")
    parser.add_argument("--seed", type=int, default=0, help="of the generated trace")
    parser.add_argument("--seconds", type=int, default=600, help="of a stream, and of a service that is idle")
    parser.add_argument("--fresh", action="store_true", help="generate the traces again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
