"""The catalog entries a scenario names, with its own changes applied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sim.scenario.schema import DegradedSpec, GpuOverride, ScaleUpOverride, Scenario
from sim.workload.architecture import Architecture
from sim.workload.recommender import Recommender

if TYPE_CHECKING:
    from hwmodels.gpu import Gpu
    from hwmodels.network import Network
    from hwmodels.node import Nic, Node, ScaleUp
    from hwmodels.stack import StackProfile


def recommender(scenario: Scenario) -> Recommender | None:
    """The model where it is a recommender; None for a transformer or an unknown name."""
    from sim.workload.catalog import recommender as catalogued
    from sim.workload.catalog import recommender_names

    model = scenario.model
    if isinstance(model, Recommender):
        return model
    return catalogued(model) if isinstance(model, str) and model in recommender_names() else None


def architecture(scenario: Scenario) -> Architecture:
    """The transformer, from the catalog or the scenario itself. Raises UnknownName, TypeError for a recommender."""
    if isinstance(scenario.model, Recommender):
        raise TypeError(f"{scenario.model.name} is a recommender, no transformer")
    if not isinstance(scenario.model, str):
        return scenario.model
    from sim.workload.catalog import architecture as catalogued

    return catalogued(scenario.model)


def stack(scenario: Scenario) -> StackProfile:
    """The software profile named (or in the file named), or the newest for GPU and model family; slowed as asked.

    Raises UnknownName or CatalogError.
    """
    from hwmodels import catalog

    if scenario.cluster.stack is not None:
        named = catalog.stack_named(scenario.cluster.stack)
    else:
        family = recommender(scenario) is not None
        named = catalog.newest_stack(catalog_node(scenario).gpu.name, recommenders=family)
    return _launched(_degraded_stack(named, scenario.cluster.degraded), scenario)


def _launched(profile: StackProfile, scenario: Scenario) -> StackProfile:
    """With the host time per kernel that the scenario gives; graphs take none."""
    training = scenario.training
    if training.graphs == "full":
        return replace(profile, host_launch_s=0.0)
    return (
        profile if training.host_launch_s is None else replace(profile, host_launch_s=training.host_launch_s)
    )


def catalog_node(scenario: Scenario) -> Node:
    """The node as the catalog has it. Raises UnknownName."""
    from hwmodels import catalog

    return catalog.node(scenario.cluster.node)


def node(scenario: Scenario) -> Node:
    """The node with the scenario's GPU, scale-up and NIC changes. Raises UnknownName."""
    cluster, base = scenario.cluster, catalog_node(scenario)
    return replace(
        base,
        gpu=_changed_gpu(base.gpu, cluster.gpu),
        scale_up=_changed_scale_up(base.scale_up, cluster.scale_up),
        nic=_changed_nic(base.nic, scenario),
        nics=base.nics if cluster.nics is None else cluster.nics,
    )


def network(scenario: Scenario) -> Network | None:
    """The network between nodes; None where nothing on it can slow a flow."""
    from hwmodels.fabric_spec import FabricSpec
    from hwmodels.network import Network, RoutingSpec

    asked, background = scenario.cluster.fabric, scenario.cluster.background_load.by_tier
    if asked.kind == "non-blocking" and not background:
        return None
    spec = FabricSpec(
        kind=asked.kind,
        tiers=None if asked.kind == "non-blocking" else asked.tiers,
        oversubscription=None if asked.kind == "non-blocking" else asked.oversubscription,
        radix=asked.radix,
        dims=asked.dims,
        group_switches=asked.group_switches,
        background=background,
    )
    routing = RoutingSpec(asked.routing, asked.queue_pairs, asked.pxn, scenario.seed)
    scattered = scenario.cluster.placement == "scattered"
    return Network(node(scenario), scenario.cluster.nodes, scenario.gpus, spec, routing, scattered)


def domain_gpus(scenario: Scenario) -> int:
    """GPUs of one scale-up domain."""
    override = scenario.cluster.scale_up
    if override is not None and override.domain_gpus is not None:
        return override.domain_gpus
    return catalog_node(scenario).scale_up.domain_gpus


def _changed_nic(nic: Nic, scenario: Scenario) -> Nic:
    from hwmodels import catalog

    cluster = scenario.cluster
    if cluster.nic is not None:
        nic = catalog.nic(cluster.nic)
    if cluster.nic_bandwidth_Bps is None:
        return nic
    ratio = cluster.nic_bandwidth_Bps / nic.line_rate_Bps
    return replace(
        nic, line_rate_Bps=cluster.nic_bandwidth_Bps, usable_bandwidth_Bps=nic.usable_bandwidth_Bps * ratio
    )


def _changed_scale_up(links: ScaleUp, override: ScaleUpOverride | None) -> ScaleUp:
    """A new link rate keeps the usable share; a new kind has no measured table of its own."""
    if override is None:
        return links
    new_kind = override.kind is not None and override.kind != links.kind
    kind = override.kind or links.kind
    link = override.link_bandwidth_Bps or links.link_bandwidth_Bps
    ratio = link / links.link_bandwidth_Bps
    usable = override.usable_bandwidth_Bps or links.usable_bandwidth_Bps * ratio
    table = {} if new_kind else {group: rate * ratio for group, rate in links.bus_bandwidth_Bps.items()}
    domain = override.domain_gpus or links.domain_gpus
    return replace(
        links,
        kind=kind,
        domain_gpus=domain,
        links_per_gpu=domain - 1 if kind == "mesh" else links.links_per_gpu,
        link_bandwidth_Bps=link,
        usable_bandwidth_Bps=usable,
        latency_s=links.latency_s if override.latency_s is None else override.latency_s,
        bus_bandwidth_Bps=table,
    )


def _changed_gpu(gpu: Gpu, override: GpuOverride | None) -> Gpu:
    """More compute units under the same power cap run at a lower clock (``hwmodels.power``, cap^0.6).

    A new peak clock moves the data-sheet peak; under load the power cap decides, so the achievable
    rate changes only where the new peak clock lies below the sustained one.
    """
    if override is None:
        return gpu
    from hwmodels.power import CAP_EXPONENT

    units = override.compute_units or gpu.compute_units
    wider = units / gpu.compute_units
    clock = override.peak_clock_Hz or gpu.peak_clock_Hz
    slower = wider**-CAP_EXPONENT
    return replace(
        gpu,
        hbm_bytes=override.hbm_bytes or gpu.hbm_bytes,
        hbm_bandwidth_Bps=override.hbm_bandwidth_Bps or gpu.hbm_bandwidth_Bps,
        host_link_Bps=override.host_link_Bps or gpu.host_link_Bps,
        compute_units=units,
        peak_clock_Hz=clock,
        peak_flops={k: v * wider * clock / gpu.peak_clock_Hz for k, v in gpu.peak_flops.items()},
        achievable_flops={k: v * wider * slower for k, v in gpu.achievable_flops.items()},
        sustained_clock_Hz={k: v * slower for k, v in gpu.sustained_clock_Hz.items()},
    )


def _degraded_stack(stack: StackProfile, spec: DegradedSpec | None) -> StackProfile:
    """What a slow clock, kernel or link takes from the rates that the profile reaches.

    Latencies stay: a slow link is one of less bandwidth.
    """
    if spec is None:
        return stack
    gemm, attention = spec.compute * spec.gemm, spec.compute * spec.attention
    return replace(
        stack,
        gemm_efficiency={dtype: share * gemm for dtype, share in stack.gemm_efficiency.items()},
        attention_share={way: share * attention for way, share in stack.attention_share.items()},
        embedding={
            name: figure * spec.compute if name.endswith("bytes_per_clock") else figure
            for name, figure in stack.embedding.items()
        },
        stream_efficiency=stack.stream_efficiency * spec.memory,
        scale_up_efficiency=stack.scale_up_efficiency * spec.scale_up,
        scale_out_efficiency=stack.scale_out_efficiency * spec.scale_out,
        p2p_efficiency=stack.p2p_efficiency * spec.scale_out,
        kernel_gap_s=stack.kernel_gap_s if spec.kernel_gap_s is None else spec.kernel_gap_s,
        fixed_step_s=stack.fixed_step_s + (spec.step_overhead_s or 0.0),
    )
