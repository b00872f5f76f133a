"""What is allowed but worth saying: settings without effect here, and simplifications of this version."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import given
from sim.scenario.schema import Scenario


def cautions(scenario: Scenario) -> tuple[str, ...]:
    """One sentence each, beginning with the field."""
    return (
        *_unused_seed(scenario),
        *_fabric(scenario),
        *_unused_network(scenario),
        *_unused_sharing(scenario),
    )


def _unused_seed(scenario: Scenario) -> Iterator[str]:
    if scenario.seed:
        yield "seed: has no effect: nothing is random in this version"


def _fabric(scenario: Scenario) -> Iterator[str]:
    fabric = scenario.cluster.fabric
    if fabric.kind != "non-blocking":
        yield f"cluster.fabric.kind: {fabric.kind} is modelled as non-blocking in this version"
    elif fabric.tiers is not None:
        yield "cluster.fabric.tiers: has no effect: the fabric is non-blocking"


def _unused_network(scenario: Scenario) -> Iterator[str]:
    if scenario.gpus > machine.domain_gpus(scenario):
        return
    for field, key in (
        ("nic", "nic"),
        ("nics", "nics"),
        ("nic_bandwidth_Bps", "nic_bandwidth"),
        ("fabric", "fabric"),
    ):
        if given(scenario.cluster, field):
            yield f"cluster.{key}: has no effect: all GPUs lie in one scale-up domain"


def _unused_sharing(scenario: Scenario) -> Iterator[str]:
    p, dp = scenario.parallelism, scenario.dp
    if dp == 1 and given(p, "data_sharding"):
        yield f"parallelism.data_sharding: {p.data_sharding} shares nothing: there is one replica"
    for kind, degree in (("dp", dp), ("tp", p.tp), ("pp", p.pp)):
        if degree == 1 and given(p.overlap, kind):
            yield f"parallelism.overlap.{kind}: has no effect: {kind} is 1"
    if p.data_sharding == "fsdp" and not p.overlap.dp and given(p, "prefetch"):
        yield "parallelism.prefetch: has no effect on time: overlap.dp is off, nothing is gathered ahead"
    if scenario.gpus == 1 and scenario.cluster.scale_up is not None:
        yield "cluster.scale_up: has no effect: there is one GPU"
