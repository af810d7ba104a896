"""A lake into which several made-up clusters landed."""

from __future__ import annotations

from pathlib import Path
from random import Random

from gpulake.core.config import Cluster, Config, GpuType
from gpulake.flow import Flow
from oracle.facts import Facts
from oracle.making import with_offset, write_side_tables
from oracle.marts import PRICES, WATTS
from oracle.pai_traces import pai_facts, write_pai
from oracle.sampling import add_samples, write_samples
from oracle.slurm_traces import slurm_facts, write_slurm
from oracle.states import write_states

CLUSTERS = (
    *("tiger", "della", "stellar", "adroit", "lion", "puma", "lynx"),
    *("ocelot", "serval", "caracal", "margay", "kodkod", "oncilla", "manul"),
)


def landed_lake(seed: int, folder: Path) -> tuple[Flow, list[Facts]]:
    """Two traces of PAI and fourteen of Slurm, independent of each other."""
    every = [pai_facts(2 * seed, "pai"), pai_facts(2 * seed + 1, "synth")]
    write_pai(every, folder / "raw")
    slurm = [slurm_facts(seed, name) for name in CLUSTERS]
    write_slurm(slurm, folder / "raw")
    for facts, _ in slurm:
        add_samples(facts)
    write_samples([facts for facts, _ in slurm], folder / "raw")
    every += [facts for facts, _ in slurm]
    write_states(every, folder / "raw")
    write_side_tables(Random(f"side tables {seed}"), every, folder / "raw")
    flow = Flow(
        Config(
            lake=folder / "lake",
            threads=1,
            clusters={facts.cluster: _settings(facts) for facts in every},
            gpu_types={
                name: GpuType(price_per_hour=PRICES.get(name, -1.0), busy_watts=busy, idle_watts=idle)
                for name, (busy, idle) in WATTS.items()
            },
        )
    )
    flow.land([folder / "raw"])
    return flow, every


def _settings(facts: Facts) -> Cluster:
    def text(moment: int | None) -> str:
        return "" if moment is None else with_offset(moment, facts.zone)

    return Cluster(
        time_zone=facts.zone,
        gpus=facts.gpus_setting,
        gpu_type=facts.gpu_type_setting,
        has_stale_running=facts.has_stale_running,
        observed_from=text(facts.observed_from),
        observed_until=text(facts.observed_until),
    )
