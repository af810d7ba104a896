"""Truth: what was injected, with the ids it concerns, for truth.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpulake.synth import incidents
from gpulake.synth.ids import Ids
from gpulake.synth.incidents import Incident, IncidentPlan
from gpulake.synth.trace import Trace


def injected(trace: Trace, ids: Ids) -> tuple[Incident, ...]:
    """Every incident of the trace, in the order of time."""
    plan, people = trace.plan, trace.population
    if plan is None:
        return ()
    burst_ids = tuple(ids.text("job", int(job)) for job in people.burst_jobs)
    found = [
        Incident(
            kind="hot_weekend",
            first_second=plan.hot_from,
            last_second=plan.hot_to,
            subject="cluster",
            subject_ids=(),
            magnitude=plan.hot_factor,
            expect="machine_gpu is far above that of other Saturdays and Sundays",
        ),
        Incident(
            kind="runaway_user",
            first_second=plan.runaway_from,
            last_second=plan.runaway_to,
            subject="user",
            subject_ids=(ids.text("user", people.idle_user),),
            magnitude=float(len(people.idle_jobs)),
            expect="one user submits so many jobs, each of which holds a whole GPU at about 0 % use",
        ),
        Incident(
            kind="failure_burst",
            first_second=plan.burst_from,
            last_second=plan.burst_to,
            subject="job",
            subject_ids=burst_ids,
            magnitude=plan.burst_failed_share,
            expect="this share of the jobs submitted in these hours fails",
        ),
        *_machine_incidents(trace, plan, ids),
    ]
    found = sorted(found, key=lambda incident: incident.first_second)
    return tuple(replace(incident, strength=plan.strength) for incident in found)


def _machine_incidents(trace: Trace, plan: IncidentPlan, ids: Ids) -> Iterator[Incident]:
    machines = trace.population.machines
    if plan.rack is not None:
        dead = machines.of_type(incidents.RACK_TYPE)[plan.rack.machines]
        yield Incident(
            kind="dead_rack",
            first_second=plan.rack.first_second,
            last_second=plan.rack.last_second,
            subject="machine",
            subject_ids=tuple(ids.text("machine", int(machine)) for machine in dead),
            magnitude=float(np.count_nonzero(trace.hit_rows)),
            expect="so many instances end Failed or Interrupted at the first second; none starts here before the last",
        )
    if plan.slow is not None:
        slow = machines.of_type(incidents.SLOW_TYPE)[plan.slow.machine]
        yield Incident(
            kind="slow_machine",
            first_second=plan.slow.first_second,
            last_second=plan.slow.last_second,
            subject="machine",
            subject_ids=(ids.text("machine", int(slow)),),
            magnitude=plan.slow.factor,
            expect="instances that start on this machine run so many times longer, and their gangs wait for them",
        )


def as_json(found: tuple[Incident, ...]) -> bytes:
    return (json.dumps([incident.as_record() for incident in found], indent=2) + "\n").encode()
