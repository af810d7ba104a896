"""The report of a job as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gpulake.core.ledger import HELD, bucket_name
from gpulake.core.words import NO_NAME, amount, bar, count, inferred, label, listed, opened, sentence, share, span
from gpulake.show.card_text import cost_words
from gpulake.show.job_report import Asked, GpuUse, JobReport

GIB = 1 << 30
BAR = 20
MOST_GPUS = 32
MOST_MACHINES = 6
MOST_ATTEMPTS = 8
MOST_FINDINGS = 5


def job_text(report: JobReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: JobReport) -> Iterator[str]:
    user = NO_NAME if report.user_id is None else label(report.user_id)
    yield f"Job {label(report.job_id)} of {user} on {label(report.cluster_id)}: {report.status}"
    for word, text in (
        ("asked for", asked_words(report.asked)),
        ("waited", _waited(report)),
        ("ran", ran_words(report)),
        ("held", held_words(report)),
        ("used", used_words(report)),
        ("energy", energy_words(report)),
        ("cost", cost(report)),
        ("ended", ended_words(report)),
    ):
        if text:
            yield f"  {word:<10} {text}"
    yield from _attempts(report)
    if report.gpus:
        yield "Its GPUs"
        yield from map(_gpu, report.gpus[:MOST_GPUS])
        if len(report.gpus) > MOST_GPUS:
            yield f"  and {len(report.gpus) - MOST_GPUS:,} more, in --json"
    if report.diagnosis or report.incidents:
        yield "Why"
        yield from _why(report)
    yield from _findings(report)
    yield "What to change"
    for change in report.changes:
        yield f"  {sentence(change.advice)[:-1]}: {change.why}"
    if not report.changes:
        yield "  nothing that its figures show"


def asked_words(asked: Asked) -> str:
    parts = []
    if asked.gpus is not None:
        kind = label(asked.gpu_type) if asked.gpu_type else "GPU"
        also = [name for name in (asked.gpu_model,) if name and name != asked.gpu_type]
        if asked.gpu_memory_bytes:
            also.append(f"{asked.gpu_memory_bytes / GIB:.0f} GiB each")
        parts.append(f"{asked.gpus:g} × {kind}" + (f" ({', '.join(also)})" if also else ""))
    if asked.cores is not None:
        parts.append(f"{asked.cores:g} cores")
    if asked.memory_bytes is not None:
        parts.append(f"{asked.memory_bytes / GIB:.1f} GiB of memory")
    if asked.limit_seconds is not None:
        parts.append(f"at most {span(asked.limit_seconds)}")
    return ", ".join(parts) or "unknown: its source does not say"


def ran_words(report: JobReport) -> str:
    if report.started_at is None:
        return "not yet" if report.status == "waiting" else "unknown: no start is known"
    length = "" if report.ran_seconds is None else f"{span(report.ran_seconds)}, "
    end = report.ended_at or report.seen_until
    until = _time(end) if end else "an unknown end"
    where = ""
    if report.machines:
        more = len(report.machines) - MOST_MACHINES
        where = f", on {', '.join(map(label, report.machines[:MOST_MACHINES]))}" + (
            f" and {more:,} more" if more > 0 else ""
        )
    times = f"{_time(report.started_at)} to {until} UTC"
    many = f", in {tries(report)} attempts" if tries(report) > 1 else ""
    return f"{length}{times}{', as last seen' if report.seen_until else ''}{where}{many}"


def tries(report: JobReport) -> int:
    return max((row["attempt"] for row in report.attempts), default=1)


def _attempts(report: JobReport) -> Iterator[str]:
    if tries(report) == 1:
        return
    yield "Its attempts"
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in report.attempts:
        by_number.setdefault(row["attempt"], []).append(row)
    for _, rows in sorted(by_number.items())[-MOST_ATTEMPTS:]:
        begin, end = min(row["held_from"] for row in rows), max(row["held_until"] for row in rows)
        nodes = [label(node) for node in dict.fromkeys(row["machine_id"] for row in rows) if node]
        where = f" on {listed(nodes, MOST_MACHINES)}" if nodes else ""
        ends = ", ".join(dict.fromkeys(label(row["status"]) for row in rows))
        yield f"  {_time(begin)} to {_time(end)} UTC{where}: {ends}"
    if len(by_number) > MOST_ATTEMPTS:
        yield f"  and {len(by_number) - MOST_ATTEMPTS:,} before, in --json"


def _waited(report: JobReport) -> str:
    if report.waited_seconds is None:
        return "unknown"
    reason = f", for {label(report.wait_reason)}" if report.wait_reason else ""
    until = "so far" if report.status == "waiting" else "to its start"
    return f"{span(report.waited_seconds)} {until}{reason}"


def energy_words(report: JobReport) -> str:
    energy = report.energy_kilowatt_hours
    return "" if energy is None else f"{amount(energy)} kWh of its GPUs, as measured"


def held_words(report: JobReport) -> str:
    held = report.held_gpu_hours
    if not held:
        return "no GPU-hours"
    parts = [f"{amount(report.buckets[name])} {bucket_name(name)}" for name in HELD if report.buckets[name] > 0]
    return f"{amount(held)} GPU-hours{inferred(report.inferred_gpu_hours, held)}: {', '.join(parts)}"


def used_words(report: JobReport) -> str:
    used, asked, parts = report.used, report.asked, []
    if used.gpus is not None and asked.gpus:
        parts.append(
            f"{used.gpus:.2f} of {asked.gpus:g} {'GPU' if asked.gpus == 1 else 'GPUs'} ({share(used.gpus, asked.gpus)})"
        )
    if used.cores is not None:
        of = f" of {asked.cores:g} cores ({share(used.cores, asked.cores)})" if asked.cores else " cores"
        parts.append(f"{used.cores:.1f}{of}")
    if used.peak_memory_bytes is not None:
        of = f" of {asked.memory_bytes / GIB:.1f}" if asked.memory_bytes else ""
        parts.append(f"{used.peak_memory_bytes / GIB:.1f}{of} GiB of memory at its peak")
    return ", ".join(parts) or "unknown: nothing measured it"


def cost(report: JobReport) -> str:
    if report.money is None:
        return (
            "unknown: no price_per_hour is set, and its GPUs have no list price" if report.held_gpu_hours else "nothing"
        )
    return f"{amount(report.money.amount)} {report.currency}, {cost_words(report.money)}"


def ended_words(report: JobReport) -> str:
    words = report.status if report.status not in ("running", "waiting") else f"not yet: {report.status}"
    if report.diagnosis and report.diagnosis["verdict"] == "failed":
        return f"{words}: {label(report.diagnosis['reason'])}"
    return words


def _gpu(gpu: GpuUse) -> str:
    name = f"{label(gpu.node)} {label(gpu.gpu_id) if gpu.gpu_index is None else gpu.gpu_index}"
    busy = "–" if gpu.busy_ratio is None else f"{gpu.busy_ratio:>4.0%} {bar(gpu.busy_ratio, 1.0, BAR):<{BAR}}"
    parts = []
    if gpu.peak_memory_bytes is not None:
        of = f" of {gpu.memory_bytes / GIB:.0f}" if gpu.memory_bytes else ""
        parts.append(f"{gpu.peak_memory_bytes / GIB:.1f}{of} GiB at its peak")
    if gpu.power_watts is not None:
        parts.append(f"{gpu.power_watts:.0f} W")
    return f"  {name:<16} {busy}  {', '.join(parts)}".rstrip()


def _why(report: JobReport) -> Iterator[str]:
    if found := report.diagnosis:
        yield f"  {sentence(label(found['cause'] or found['reason']))}"
        if found["remedy"]:
            yield f"  {sentence(label(found['remedy']))}"
    for incident in report.incidents[:3]:
        yield f"  incident {label(incident['incident_id'])}, {incident['state']}: {label(incident['cause'])}"
    if len(report.incidents) > 3:
        yield f"  and {count(len(report.incidents) - 3, 'more incident')}"


def _findings(report: JobReport) -> Iterator[str]:
    if report.findings:
        yield "On its nodes in that time"
    for finding in report.findings[:MOST_FINDINGS]:
        yield f"  {opened(label(finding['headline']))} ({label(finding['finding_id'])})"
    if len(report.findings) > MOST_FINDINGS:
        yield f"  and {count(len(report.findings) - MOST_FINDINGS, 'more finding')}, in --json"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
