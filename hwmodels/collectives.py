"""Seconds for one uncontended collective: latency, ramp, plateau.

``t = latency x (1 + (S / 1 MiB)^(1/4)) + bytes on the wire / bandwidth``. The growing latency term is
what an MI300X x 8 all-reduce shows (13 us floor, half bandwidth at 5.8 MiB, 95 % at ~200 MiB): chunks
get longer as messages grow, so filling the ring costs more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hwmodels.node import Node
from hwmodels.stack import StackProfile

RAMP_BYTES = 2.0**20
RAMP_EXPONENT = 0.25


@dataclass(frozen=True)
class CollectiveModel:
    """Collective times on ``node`` machines under ``stack`` over a non-blocking scale-out fabric."""

    node: Node
    stack: StackProfile

    def scale_up_Bps(self, group: int) -> float:
        """Bus bandwidth of ``group`` GPUs inside one scale-up domain, bytes/s per direction.

        A full mesh gives a group of g only g-1 links per GPU; a switch gives every group the GPU's
        full port. Measured tables (uneven mesh) are interpolated linearly in g.
        """
        scale_up = self.node.scale_up
        if scale_up.bus_bandwidth_Bps:
            bandwidth = _interpolate(dict(scale_up.bus_bandwidth_Bps), group)
        elif scale_up.kind == "mesh":
            bandwidth = (group - 1) * scale_up.usable_bandwidth_Bps
        else:
            bandwidth = scale_up.usable_bandwidth_Bps
        return bandwidth * self.stack.scale_up_efficiency

    def bus_Bps(self, size: int, per_domain: int) -> float:
        """Bus bandwidth of a group of ``size`` ranks with ``per_domain`` in each scale-up domain.

        Across domains every member drives its own share of the NICs and the inner hops must keep up
        (findings-scaling F6): under TP8 a data-parallel ring has one GPU's NIC, under TP1 the
        whole node's.
        """
        if size <= per_domain:
            return self.scale_up_Bps(size)
        nics = self.node.nic_bandwidth_per_gpu_Bps * per_domain
        scale_out = nics * self.stack.scale_out_efficiency
        return scale_out if per_domain == 1 else min(self.scale_up_Bps(per_domain), scale_out)

    def seconds(self, kind: str, size_bytes: float, size: int, per_domain: int) -> float:
        """Time of ``kind`` on a full buffer of ``size_bytes`` over a group. Zero for a group of one.

        ``kind``: all_reduce, all_gather, reduce_scatter, or send (between two ranks of the group,
        across domains when ``per_domain`` is 1).
        """
        if size <= 1 or size_bytes <= 0:
            return 0.0
        if kind == "send":
            return self.send_s(size_bytes, crosses_domains=per_domain == 1)
        passes = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}[kind]
        wire = size_bytes * passes * (size - 1) / size / self.bus_Bps(size, per_domain)
        return self.latency_s(kind, size, per_domain) * ramp(size_bytes) + wire

    def send_s(self, size_bytes: float, *, crosses_domains: bool) -> float:
        """One point-to-point message of ``size_bytes``."""
        if crosses_domains:
            bandwidth = self.node.nic_bandwidth_per_gpu_Bps * self.stack.p2p_efficiency
            return self.node.nic.latency_s + size_bytes / bandwidth
        return self.node.scale_up.latency_s + size_bytes / self.scale_up_Bps(2)

    def latency_s(self, kind: str, size: int, per_domain: int) -> float:
        """Time of an empty collective.

        Inside a domain: the measured floor (half of it for one-way collectives). Across domains a
        ring visits every domain in turn, a tree only log2 of them; all-reduce takes the better,
        gathers and reduce-scatters have rings only.
        """
        inside = self.node.scale_up.latency_s / 2.0
        domains = math.ceil(size / per_domain)
        hop = self.node.nic.latency_s + (inside if per_domain > 1 else 0.0)
        ring = inside + (domains if domains > 1 else 0) * hop
        if kind != "all_reduce":
            return ring
        tree = inside + (domains - 1).bit_length() * hop
        return 2.0 * min(ring, tree)


def ramp(size_bytes: float) -> float:
    """Growth of the latency term with message size."""
    return 1.0 + float((size_bytes / RAMP_BYTES) ** RAMP_EXPONENT)


def _interpolate(table: dict[int, float], x: int) -> float:
    keys = sorted(table)
    if x <= keys[0]:
        return table[keys[0]]
    for low, high in zip(keys, keys[1:], strict=False):
        if x <= high:
            return table[low] + (table[high] - table[low]) * (x - low) / (high - low)
    return table[keys[-1]]
