"""Seconds for one uncontended collective: floor, ramp, plateau.

``t = floor + fill(S) + bytes on the wire / bandwidth``. Filling the ring costs more as messages and
their chunks grow: with the fourth root of the size, and as much as the wire at the size that reaches
half of the plateau. Against MI300X x 8 (13 us, 5.8 MiB), A100 x 8 (20 MiB) and B200 x 8 (35 MiB)
all-reduce curves the form stays within 16 % from 16 MiB up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from hwmodels.node import Node
from hwmodels.stack import StackProfile

FILL_EXPONENT = 0.25
MEASURED_GROUP = 8  # floors and half-bandwidth sizes are those of 8 GPUs


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
        (docs/models.md): under TP8 a data-parallel ring has one GPU's NIC, under TP1 the
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
        return self.latency_s(kind, size_bytes, size, per_domain) + wire

    def send_s(self, size_bytes: float, *, crosses_domains: bool) -> float:
        """One point-to-point message of ``size_bytes``."""
        if crosses_domains:
            bandwidth = self.node.nic_bandwidth_per_gpu_Bps * self.stack.p2p_efficiency
            return self.node.nic.latency_s + size_bytes / bandwidth
        return self.node.scale_up.latency_s + size_bytes / self.scale_up_Bps(2)

    def latency_s(self, kind: str, size_bytes: float, size: int, per_domain: int) -> float:
        """What ``kind`` costs beyond its wire time.

        Inside a domain a ring of g ranks has g-1 hops. Across domains a ring visits every domain in
        turn, a tree only log2 of them; all-reduce takes the better, gathers and reduce-scatters
        have rings only. One-way collectives pay half of an all-reduce.
        """
        group = min(size, per_domain)
        one_way = self._one_way_s(size_bytes, group)
        domains = math.ceil(size / per_domain)
        if domains > 1:
            hops = domains if kind != "all_reduce" else min(domains, (domains - 1).bit_length())
            one_way += hops * (self.node.nic.latency_s + self._one_way_s(0.0, group))
        return one_way * (2.0 if kind == "all_reduce" else 1.0)

    def _one_way_s(self, size_bytes: float, group: int) -> float:
        """Floor and fill of one pass over ``group`` ranks of a domain.

        From the floor of an empty message to the time that halves the bandwidth at the half-bandwidth
        size, and on from there. The floor fades out on the way, so that neither a lower floor nor more
        bandwidth ever makes a collective longer.
        """
        if group <= 1:
            return 0.0
        scale_up = self.node.scale_up
        n, half = min(scale_up.domain_gpus, MEASURED_GROUP), scale_up.half_bandwidth_bytes
        at_half = 2.0 * (n - 1) / n * half / self.scale_up_Bps(n)
        grown = float((size_bytes / half) ** FILL_EXPONENT)
        floor = scale_up.latency_s
        whole = max(floor, floor * max(0.0, 1.0 - grown) + at_half * grown)
        return (group - 1) / (n - 1) * whole / 2.0


def _interpolate(table: dict[int, float], x: int) -> float:
    keys = sorted(table)
    if x <= keys[0]:
        return table[keys[0]]
    for low, high in pairwise(keys):
        if x <= high:
            return table[low] + (table[high] - table[low]) * (x - low) / (high - low)
    return table[keys[-1]]
