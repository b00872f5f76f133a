"""Rules of the machine: what the node, its GPU, its links and the software stack can be asked for."""

from __future__ import annotations

from collections.abc import Iterator

from hwmodels.catalog import UnknownName
from hwmodels.fabric_spec import FabricError
from hwmodels.stack import StackProfile
from hwmodels.units import format_quantity
from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.schema import FabricSpec, Scenario

MOST_GRAPH_GPUS = 262_144
LOW_PRECISION = ("fp8", "mxfp8", "mxfp4", "nvfp4")  # everything outside the linear layers stays bf16


def some_stack_covers_the_gpu(scenario: Scenario) -> Iterator[Finding]:
    if scenario.cluster.stack is not None:
        return
    try:
        machine.stack(scenario)
    except UnknownName as unknown:
        yield finding(str(unknown), "cluster.node")


def stack_matches_the_gpu(scenario: Scenario) -> Iterator[Finding]:
    if scenario.cluster.stack is None:
        return
    from hwmodels import catalog

    gpu, profile = machine.catalog_node(scenario).gpu.name, machine.stack(scenario)
    if gpu in profile.gpus:
        return
    fitting = [name for name in catalog.names("stack") if gpu in catalog.stack(name).gpus]
    yield finding(
        f"stack {profile.name!r} is for {', '.join(profile.gpus)}, the node has {gpu}; "
        f"for {gpu}: {', '.join(fitting) or 'none yet'}",
        "cluster.stack",
    )


def gpu_count_fits_the_nodes(scenario: Scenario) -> Iterator[Finding]:
    gpus, nodes = scenario.cluster.gpus, scenario.cluster.nodes
    if gpus is None:
        return
    per_node = machine.catalog_node(scenario).gpus
    if gpus > nodes * per_node:
        yield finding(f"{nodes} nodes of {per_node} GPUs have {nodes * per_node}, not {gpus}", "cluster.gpus")
    elif gpus < nodes * per_node and nodes > 1:
        yield finding(
            f"{gpus} of {nodes * per_node} GPUs: part of a node is modelled with nodes: 1 only; remove gpus",
            "cluster.gpus",
        )


def power_cap_is_within_the_boards(scenario: Scenario) -> Iterator[Finding]:
    cap, gpu = scenario.cluster.power_cap_W, machine.catalog_node(scenario).gpu
    if cap is not None and cap > gpu.power_cap_W:
        own = format_quantity(gpu.power_cap_W, "power")
        yield finding(
            f"{format_quantity(cap, 'power')} is above the {own} that {gpu.name} may draw",
            "cluster.power_cap",
        )


def gpu_has_the_formats(scenario: Scenario) -> Iterator[Finding]:
    gpu, precision = machine.catalog_node(scenario).gpu, scenario.training.precision
    rates = [name for name in gpu.achievable_flops if name in gpu.peak_flops]
    for name in _formats(precision):
        if name not in rates:
            yield finding(
                f"{precision}: {gpu.name} has no {name} matrix rate; it has {', '.join(sorted(rates))}",
                "training.precision",
            )


def stack_has_the_formats(scenario: Scenario) -> Iterator[Finding]:
    precision, profile = scenario.training.precision, _fitting_stack(scenario)
    if profile is None:
        return
    for name in _formats(precision):
        if name not in profile.gemm_efficiency:
            yield finding(
                f"{precision}: stack {profile.name!r} has no {name} GEMM figure; "
                f"it has {', '.join(sorted(profile.gemm_efficiency))}",
                "training.precision",
                "cluster.stack",
            )


def narrow_state_needs_narrow_compute(scenario: Scenario) -> Iterator[Finding]:
    training = scenario.training
    for field in ("gradient_dtype", "parameter_dtype"):
        if training.precision == "fp32" and given(training, field) and getattr(training, field) != "fp32":
            yield finding(
                "has no effect with precision: fp32: all state is fp32, remove it", f"training.{field}"
            )


def stack_has_the_attention_kernel(scenario: Scenario) -> Iterator[Finding]:
    model = machine.recommender(scenario)
    if scenario.training.attention != "fused" or (model is not None and model.encoder is None):
        return
    profile = _fitting_stack(scenario)
    if profile is None:
        return
    if not {"forward", "backward"} <= set(profile.attention_share):
        yield finding(
            f"stack {profile.name!r} has no measured fused attention: write attention: unfused",
            "training.attention",
            "cluster.stack",
        )


def scale_up_change_is_complete(scenario: Scenario) -> Iterator[Finding]:
    change, links = scenario.cluster.scale_up, machine.catalog_node(scenario).scale_up
    if change is None:
        return
    rate_given = change.link_bandwidth_Bps is not None or change.usable_bandwidth_Bps is not None
    new_kind = change.kind is not None and change.kind != links.kind
    if change.link_bandwidth_Bps is not None and change.usable_bandwidth_Bps is not None:
        yield finding(
            "link_bandwidth scales what is usable, usable_bandwidth states it: keep one of the two",
            "cluster.scale_up.usable_bandwidth",
        )
    if new_kind and not rate_given:
        yield finding(
            f"{change.kind} instead of {links.kind}: give link_bandwidth or usable_bandwidth too",
            "cluster.scale_up.kind",
        )
    if links.bus_bandwidth_Bps and not new_kind and change.usable_bandwidth_Bps is not None:
        yield finding(
            "this node's links are a table of measured bandwidths by group size: scale it with "
            "link_bandwidth, or give kind: mesh or switch too",
            "cluster.scale_up.usable_bandwidth",
        )
    if links.bus_bandwidth_Bps and not new_kind and (change.domain_gpus or 0) > max(links.bus_bandwidth_Bps):
        yield finding(
            f"bandwidths of this node are measured for up to {max(links.bus_bandwidth_Bps)} GPUs: "
            "give kind: mesh or switch too",
            "cluster.scale_up.domain_gpus",
        )


def fabric_can_be_built(scenario: Scenario) -> Iterator[Finding]:
    """The network as a graph, where there is one to build: its own errors, located at the fabric."""
    fabric, gpus = scenario.cluster.fabric, scenario.gpus
    if fabric.queue_pairs > 1 and fabric.routing != "ecmp":
        yield finding("has no effect: only ecmp hashes queue pairs apart", "cluster.fabric.queue_pairs")
        return
    if fabric.kind == "non-blocking":
        for field in ("tiers", "oversubscription", "radix", "dims", "group_switches", "routing", "pxn"):
            if given(fabric, field) and getattr(fabric, field) not in (None, (1,) * 3, (1, 1), (1,)):
                yield finding(
                    "has no effect on a non-blocking network: give kind too", f"cluster.fabric.{field}"
                )
        return
    if gpus <= machine.domain_gpus(scenario):
        return
    if gpus > MOST_GRAPH_GPUS:
        yield finding(f"{gpus:,} GPUs: networks are laid out for up to {MOST_GRAPH_GPUS:,}", "cluster.nodes")
        return
    try:
        network = machine.network(scenario)
        if network is not None:
            network.check()
    except FabricError as error:
        yield _fabric_finding(str(error))


def scattered_nodes_have_switches_between(scenario: Scenario) -> Iterator[Finding]:
    cluster = scenario.cluster
    if cluster.placement != "packed" and cluster.fabric.kind == "non-blocking":
        yield finding("has no effect on a non-blocking network: give fabric.kind too", "cluster.placement")


def _fabric_finding(error: str) -> Finding:
    """An error of the fabric at the field that it names, or at the one of the scenario behind it."""
    field, _, problem = error.partition(": ")
    if field in FabricSpec.model_fields:
        return finding(problem, f"cluster.fabric.{field}")
    behind = {"nics": "cluster.nics", "switch": "cluster.fabric.radix"}.get(field)
    return finding(error, "cluster.fabric") if behind is None else finding(problem, behind, "cluster.fabric")


def _formats(precision: str) -> tuple[str, ...]:
    return (precision, "bf16") if precision in LOW_PRECISION else (precision,)


def _fitting_stack(scenario: Scenario) -> StackProfile | None:
    """The stack, unless another rule already refuses it."""
    try:
        profile = machine.stack(scenario)
    except UnknownName:
        return None
    return profile if machine.catalog_node(scenario).gpu.name in profile.gpus else None


MACHINE_RULES: tuple[Check, ...] = (
    some_stack_covers_the_gpu,
    stack_matches_the_gpu,
    gpu_count_fits_the_nodes,
    power_cap_is_within_the_boards,
    gpu_has_the_formats,
    stack_has_the_formats,
    narrow_state_needs_narrow_compute,
    stack_has_the_attention_kernel,
    scale_up_change_is_complete,
    fabric_can_be_built,
    scattered_nodes_have_switches_between,
)
