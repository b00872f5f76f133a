"""What is allowed but worth saying: settings without effect here, and simplifications of this version."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import given
from sim.scenario.schema import Scenario


def cautions(scenario: Scenario) -> tuple[str, ...]:
    """One sentence each, beginning with the field."""
    common = (
        *_unused_seed(scenario),
        *_unused_trials(scenario),
        *_background(scenario),
        *_unused_network(scenario),
        *_unused_shares(scenario),
        *_unknown_bus(scenario),
    )
    if machine.recommender(scenario) is not None:
        return common
    return (
        *common,
        *_unused_sharing(scenario),
        *_unused_routing(scenario),
        *_unused_order(scenario),
    )


def _unused_seed(scenario: Scenario) -> Iterator[str]:
    fabric = scenario.cluster.fabric
    moves = fabric.routing == "ecmp" or scenario.cluster.placement == "scattered"
    drawn = scenario.variability is not None and scenario.variability.random
    if scenario.seed and not (fabric.kind != "non-blocking" and moves) and not drawn:
        yield "seed: has no effect: nothing but ecmp routing, scattered nodes and variability is random"


def _unused_trials(scenario: Scenario) -> Iterator[str]:
    asked = scenario.variability
    if asked is not None and not asked.random and given(asked, "trials"):
        yield "variability.trials: has no effect: nothing is random, one step says it all"


def _background(scenario: Scenario) -> Iterator[str]:
    """Load on links that this network does not have."""
    from hwmodels.fabric_spec import TIERS_OF_KIND

    kind = scenario.cluster.fabric.kind
    for tier in scenario.cluster.background_load.by_tier:
        if tier not in TIERS_OF_KIND[kind]:
            name = tier.replace("-", "_")
            yield f"cluster.background_load.{name}: has no effect: a {kind} network has no such links"


def _unused_network(scenario: Scenario) -> Iterator[str]:
    if scenario.gpus > machine.domain_gpus(scenario):
        return
    for field, key in (
        ("nic", "nic"),
        ("nics", "nics"),
        ("nic_bandwidth_Bps", "nic_bandwidth"),
        ("fabric", "fabric"),
        ("background_load", "background_load"),
        ("placement", "placement"),
    ):
        if given(scenario.cluster, field):
            yield f"cluster.{key}: has no effect: all GPUs lie in one scale-up domain"


def _unused_shares(scenario: Scenario) -> Iterator[str]:
    """Slow links that nothing crosses."""
    degraded = scenario.cluster.degraded
    if degraded is None:
        return
    if given(degraded, "scale_up") and scenario.gpus == 1:
        yield "cluster.degraded.scale_up: has no effect: there is one GPU"
    if given(degraded, "scale_out") and scenario.gpus <= machine.domain_gpus(scenario):
        yield "cluster.degraded.scale_out: has no effect: all GPUs lie in one scale-up domain"
    if given(degraded, "attention") and scenario.training.attention == "unfused":
        yield "cluster.degraded.attention: has no effect: attention is unfused"


def _unknown_bus(scenario: Scenario) -> Iterator[str]:
    """Exchange over a host's PCIe tree: nobody says what a box carries, so its owner should."""
    links, change = machine.node(scenario).scale_up, scenario.cluster.scale_up
    given_rate = change is not None and change.usable_bandwidth_Bps is not None
    if links.kind == "bus" and scenario.gpus > 1 and not given_rate:
        yield (
            f"cluster.scale_up.usable_bandwidth: {links.usable_bandwidth_Bps / 1e9:g} GB/s over the host bus is assumed; "
            "published boxes do half of it to twice as much, and exchanges are known to that factor only"
        )


def _unused_sharing(scenario: Scenario) -> Iterator[str]:
    p = scenario.parallelism
    copies = 2 if p.schedule == "dualpipe" else 1  # of the model, which exchange gradients as replicas do
    dp = scenario.dp * p.cp  # context-parallel ranks exchange gradients and share shards too
    if dp * copies == 1 and given(p, "data_sharding"):
        yield f"parallelism.data_sharding: {p.data_sharding} shares nothing: there is one replica"
    for kind, degree in (("dp", dp * copies), ("tp", p.tp), ("pp", p.pp)):
        if degree == 1 and given(p.overlap, kind):
            yield f"parallelism.overlap.{kind}: has no effect: {kind} is 1"
    inside = p.tp > 1 or p.ep > 1 or p.etp > 1 or (p.cp > 1 and p.cp_method != "ring")
    if p.overlap.one_stream and not (inside and p.overlap.dp and dp > 1):
        yield "parallelism.overlap.one_stream: has no effect: collectives inside layers and beside them never meet here"
    if p.data_sharding == "fsdp" and not p.overlap.dp and given(p, "prefetch"):
        yield "parallelism.prefetch: has no effect on time: overlap.dp is off, nothing is gathered ahead"
    if scenario.gpus == 1 and scenario.cluster.scale_up is not None:
        yield "cluster.scale_up: has no effect: there is one GPU"


def _unused_routing(scenario: Scenario) -> Iterator[str]:
    """Choices about the way to experts of other ranks, where no token takes it."""
    moe, ep, experts = scenario.training.moe, scenario.parallelism.ep, machine.architecture(scenario).experts
    if experts is None:
        return
    if ep == 1:
        if given(scenario.parallelism.overlap, "ep"):
            yield "parallelism.overlap.ep: has no effect: ep is 1"
        for field in ("dispatch_units", "static_buffer"):
            if given(moe, field):
                yield f"training.moe.{field}: has no effect: ep is 1"
        if moe.dispatch == "deduplicated":
            yield "training.moe.dispatch: deduplicated has no effect: ep is 1"
    if given(moe, "group_limited") and (ep == 1 or moe.dispatch == "plain" or experts.groups == 1):
        yield "training.moe.group_limited: has no effect: it saves copies of a deduplicated dispatch over groups"


def _unused_order(scenario: Scenario) -> Iterator[str]:
    """An order that leaves all ranks where the default puts them."""
    from sim.axes import AXES

    p, order = scenario.parallelism, scenario.axis_order
    degrees = {"tp": p.tp, "cp": p.cp, "ep": p.ep, "dp": scenario.dp, "pp": p.pp}
    moving = [axis for axis in order if degrees[axis] > 1]
    if given(p, "order") and order != AXES and moving == [axis for axis in AXES if degrees[axis] > 1]:
        yield "parallelism.order: has no effect: these degrees leave every rank where it is anyway"
