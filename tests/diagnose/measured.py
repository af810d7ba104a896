"""Samples by the second, as scenes of tests need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gpulake.core.diagnosis import Diagnosis, Quote, Recovery
from gpulake.diagnose.rulebook.rule import Hit, Rule
from gpulake.diagnose.story.events import Event, Story
from gpulake.diagnose.telemetry.samples import GpuSample, HostSample, NodeEvent, Samples

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = BEGAN.timestamp()
GB = 1e9
LAST_LINE = Quote(77, "step 60 loss 2.1")
STOPS = Diagnosis("unknown", "unknown", "unknown", "The log just stops.")


def failed(reason: str, category: str = "infrastructure", action: str = "auto_restart") -> Diagnosis:
    recovery = Recovery(action, "as the log says")  # type: ignore[arg-type]
    evidence = (Quote(12, f"{reason}: it broke"),)
    return Diagnosis("failed", category, reason, "It broke.", evidence=evidence, recovery=recovery)  # type: ignore[arg-type]


def story(seconds: float = 600, is_whole: bool = True, **reported: object) -> Story:
    ended = BEGAN + timedelta(seconds=seconds)
    return replace(
        Story((), 1, 1, 100, 10, BEGAN, ended, ended, is_whole, 8, last_lines=(LAST_LINE,)),
        **reported,  # type: ignore[arg-type]
    )


def steps(every: float, until: float) -> tuple[Event, ...]:
    rule = Rule("step", "step", "progress", ("step 1",))
    moments = [BEGAN + timedelta(seconds=place * every) for place in range(int(until / every))]
    return tuple(Event(Hit(rule, n), Quote(n, f"step {n}"), n, at) for n, at in enumerate(moments, 1))


def gpu(
    seconds: Iterable[float],
    busy: Callable[[float], float] = lambda _: 0.9,
    used: Callable[[float], float] = lambda _: 40 * GB,
    name: str = "0",
    node: str = "a",
    **others: Callable[[float], object],
) -> tuple[GpuSample, ...]:
    return tuple(
        GpuSample(
            at_seconds=AT + at,
            node=node,
            gpu=name,
            busy_ratio=busy(at),
            memory_used_bytes=used(at),
            memory_total_bytes=80 * GB,
            **{key: value(at) for key, value in others.items()},  # type: ignore[arg-type]
        )
        for at in seconds
    )


def host(
    seconds: Iterable[float],
    available: Callable[[float], float | None],
    total: float | None = 100 * GB,
    node: str = "a",
) -> tuple[HostSample, ...]:
    return tuple(HostSample(AT + at, node, available(at), None, total) for at in seconds)


def samples(*series: tuple[GpuSample, ...] | tuple[HostSample, ...], events: Iterable[NodeEvent] = ()) -> Samples:
    gpus: dict[tuple[str, str], tuple[GpuSample, ...]] = {}
    hosts: dict[str, tuple[HostSample, ...]] = {}
    for each in series:
        for sample in each:
            if isinstance(sample, GpuSample):
                gpus[sample.node, sample.gpu] = (*gpus.get((sample.node, sample.gpu), ()), sample)
            else:
                hosts[sample.node] = (*hosts.get(sample.node, ()), sample)
    reported = tuple(events)
    times = [sample.at_seconds for each in gpus.values() for sample in each]
    times += [sample.at_seconds for each in hosts.values() for sample in each]
    times += [event.at_seconds for event in reported]
    return Samples(gpus, hosts, reported, min(times, default=None), max(times, default=None))
