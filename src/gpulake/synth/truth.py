"""Truth: what was injected, with the ids it concerns, for truth.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from gpulake.synth import incidents
from gpulake.synth.draws import Ids
from gpulake.synth.incidents import Incident, IncidentPlan
from gpulake.synth.trace import Trace


def injected(trace: Trace, ids: Ids) -> tuple[Incident, ...]:
    """Every incident of the trace, in the order of time."""
    if trace.plan is None:
        return ()
    strength = trace.plan.strength
    found = [Incident(*one, strength=strength) for one in _injected(trace, trace.plan, ids)]
    return tuple(sorted(found, key=lambda incident: incident.first_second))


def _injected(
    trace: Trace, plan: IncidentPlan, ids: Ids
) -> Iterator[tuple[str, int, int, str, tuple[str, ...], float, str]]:
    """Kind, first and last second, kind and ids of the subjects, magnitude, and what is to be seen."""
    people, machines = trace.population, trace.population.machines

    def named(kind: str, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(ids.text(kind, int(number)) for number in numbers)

    expect = "machine_gpu is far above that of other Saturdays and Sundays"
    yield "hot_weekend", plan.hot_from, plan.hot_to, "cluster", (), plan.hot_factor, expect
    user, jobs = named("user", [people.idle_user]), float(len(people.idle_jobs))
    expect = "one user submits so many jobs, each of which holds a whole GPU at about 0 % use"
    yield "runaway_user", plan.runaway_from, plan.runaway_to, "user", user, jobs, expect
    burst = named("job", people.burst_jobs)
    expect = "this share of the jobs submitted in these hours fails"
    yield "failure_burst", plan.burst_from, plan.burst_to, "job", burst, plan.burst_failed_share, expect
    if (rack := plan.rack) is not None:
        dead = named("machine", machines.of_type(incidents.RACK_TYPE)[rack.machines])
        ended = float(np.count_nonzero(trace.hit_rows))
        expect = "so many instances end Failed or Interrupted at the first second; none starts here before the last"
        yield "dead_rack", rack.first_second, rack.last_second, "machine", dead, ended, expect
    if (drag := plan.slow) is not None:
        slow = named("machine", [machines.of_type(incidents.SLOW_TYPE)[drag.machine]])
        expect = "instances that start on this machine run so many times longer, and their gangs wait for them"
        yield "slow_machine", drag.first_second, drag.last_second, "machine", slow, drag.factor, expect


def as_json(found: tuple[Incident, ...]) -> bytes:
    return (json.dumps([incident.as_record() for incident in found], indent=2) + "\n").encode()
