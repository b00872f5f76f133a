"""Catalog machines with one figure changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hwmodels import catalog
from hwmodels.cluster import Cluster
from hwmodels.stack import StackProfile

PAIRS = (
    ("mi300x-8x400g", "primus-2026-mi300x"),
    ("mi355x-8x400g", "primus-2026-mi355x"),
    ("mi250x-8gcd-4x200g", "megatron-deepspeed-2023-mi250x"),
    ("h100-8x400g", "nemo-2024-h100"),
    ("b200-8x400g", "nemo-2025-b200"),
    ("gb200-nvl72", "nemo-2025-gb200"),
)


def cluster(node: str = "mi300x-8x400g", stack: str = "primus-2026-mi300x", gpus: int = 16) -> Cluster:
    return Cluster(catalog.node(node), gpus, catalog.stack(stack))


def with_gpu(machine: Cluster, **changes: Any) -> Cluster:
    return replace(machine, node=replace(machine.node, gpu=replace(machine.gpu, **changes)))


def with_links(machine: Cluster, **changes: Any) -> Cluster:
    links = replace(machine.node.scale_up, **changes)
    return replace(machine, node=replace(machine.node, scale_up=links))


def with_nic(machine: Cluster, **changes: Any) -> Cluster:
    return replace(machine, node=replace(machine.node, nic=replace(machine.node.nic, **changes)))


def with_stack(machine: Cluster, **changes: Any) -> Cluster:
    stack: StackProfile = replace(machine.stack, **changes)
    return replace(machine, stack=stack)


def improved(machine: Cluster, figure: str, factor: float) -> Cluster:
    """``machine`` with one figure better by ``factor`` (at least 1): higher rate or lower latency."""
    gpu, links, nic, stack = machine.gpu, machine.node.scale_up, machine.node.nic, machine.stack
    match figure:
        case "hbm bandwidth":
            return with_gpu(machine, hbm_bandwidth_Bps=gpu.hbm_bandwidth_Bps * factor)
        case "achievable rate":  # at the same clock: more work per cycle
            faster = {k: v * factor for k, v in gpu.achievable_flops.items()}
            peaks = {k: v * factor for k, v in gpu.peak_flops.items()}
            return with_gpu(machine, achievable_flops=faster, peak_flops=peaks)
        case "power cap":
            return replace(machine, power_cap_W=gpu.power_cap_W * factor)
        case "link bandwidth":
            table = {g: rate * factor for g, rate in links.bus_bandwidth_Bps.items()}
            return with_links(
                machine, usable_bandwidth_Bps=links.usable_bandwidth_Bps * factor, bus_bandwidth_Bps=table
            )
        case "link latency":
            return with_links(machine, latency_s=links.latency_s / factor)
        case "nic bandwidth":
            return with_nic(machine, usable_bandwidth_Bps=nic.usable_bandwidth_Bps * factor)
        case "nic latency":
            return with_nic(machine, latency_s=nic.latency_s / factor)
        case "kernel gap":
            return with_stack(machine, kernel_gap_s=stack.kernel_gap_s / factor)
    raise ValueError(f"no figure {figure!r}")
