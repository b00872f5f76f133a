"""Seconds for one collective: protocols trade latency against bandwidth, algorithms hops.

A message of S bytes that needs w seconds on the wire takes ``max(floor, min over protocols of latency +
w / share of bandwidth)``. Inside a scale-up domain the latencies are multiples of two measured figures of
the node: the floor of a small all-reduce, and the wire time h of the message that reaches half of the
plateau (``hwmodels/catalog/protocols.yaml``: LL floor + w/0.29, LL128 0.59 h + w/0.71, Simple 1.9 h + w).
Across domains they are those of RCCL's own tuning table, and every domain beyond the second adds a hop.

Algorithms differ in bandwidth and in the number of hops; ``auto`` takes the fastest, as a tuned library
would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hwmodels import catalog
from hwmodels.network import Network
from hwmodels.node import Node
from hwmodels.protocol import Protocols
from hwmodels.stack import StackProfile

MEASURED_GROUP = 8  # floors and half-bandwidth sizes are those of 8 GPUs

PASSES: Mapping[str, float] = {
    "all_reduce": 2.0,
    "all_gather": 1.0,
    "reduce_scatter": 1.0,
    "all_to_all": 1.0,
    "broadcast": 1.0,
    "reduce": 1.0,
}
"""How often the buffer passes a rank, before the factor (n-1)/n of those that leave its own part alone."""

ALGORITHMS = ("auto", "ring", "tree", "hierarchical", "direct", "pairwise", "grouped", "in-switch")

# A tree keeps this much of the ring's bandwidth (RCCL src/graph/tuning.cc @0cbce2a7, tree simple, more
# than two nodes).
TREE_BANDWIDTH = 0.95


class UnknownAlgorithm(ValueError):
    """An algorithm that this collective does not have on this group."""


@dataclass(frozen=True)
class Ranks:
    """``size`` ranks, ``per_domain`` in each scale-up domain, neighbours ``stride`` GPUs apart.

    ``stride`` None: where the ranks sit does not matter (a non-blocking network).
    """

    size: int
    per_domain: int
    stride: int | None = None

    @property
    def domains(self) -> int:
        return math.ceil(self.size / self.per_domain)

    @property
    def inside(self) -> int:
        """Ranks that share a domain."""
        return min(self.size, self.per_domain)


@dataclass(frozen=True)
class CollectiveModel:
    """Collective times on ``node`` machines under ``stack``.

    ``network`` says what share of a NIC's bandwidth a traffic pattern keeps when all its groups run
    at once; None is a non-blocking network.
    """

    node: Node
    stack: StackProfile
    network: Network | None = None
    protocols: Protocols = field(default_factory=catalog.protocols, repr=False)

    def seconds(
        self,
        kind: str,
        size_bytes: float,
        size: int,
        per_domain: int,
        algorithm: str = "auto",
        stride: int | None = None,
    ) -> float:
        """Time of ``kind`` on a full buffer of ``size_bytes`` over a group. Zero for a group of one.

        ``kind``: a key of ``PASSES``, or send (to the next rank; across domains when ``per_domain``
        is 1). The buffer is what one rank holds in the end (all-gather), in the beginning
        (reduce-scatter, all-to-all), or both. Raises ``UnknownAlgorithm``.
        """
        if size <= 1 or size_bytes <= 0:
            return 0.0
        ranks = Ranks(size, per_domain, stride)
        if kind == "send":
            return self.send_s(size_bytes, crosses_domains=per_domain == 1, stride=stride)
        names = self.algorithms(kind, ranks)
        if algorithm == "auto":
            told = ("hierarchical", "grouped") if kind == "all_to_all" else ("in-switch",)
            names = tuple(name for name in names if name not in told)  # libraries do not, unasked
        else:
            if algorithm not in names:
                known = ", ".join(names)
                raise UnknownAlgorithm(f"{algorithm} is no algorithm of {kind} on this group; known: {known}")
            names = (algorithm,)
        return min(self._algorithm_s(name, kind, size_bytes, ranks) for name in names)

    def algorithms(self, kind: str, ranks: Ranks) -> tuple[str, ...]:
        """What a library may choose from. Raises KeyError for an unknown ``kind``."""
        PASSES[kind]
        if kind == "all_to_all":
            return ("direct", "grouped") if ranks.domains == 1 else ("pairwise", "hierarchical", "grouped")
        if ranks.domains == 1:
            in_switch = kind == "all_reduce" and self.node.scale_up.in_switch_bandwidth_Bps > 0.0
            return ("ring", "in-switch") if in_switch else ("ring",)
        if kind == "all_reduce":
            return ("ring", "tree", "hierarchical") if ranks.per_domain > 1 else ("ring", "tree")
        return ("ring", "tree") if kind in ("broadcast", "reduce") else ("ring",)

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

    def nic_Bps(self, stride: int | None = None) -> float:
        """What one GPU's share of the NICs carries when all ranks talk to the rank ``stride`` on, bytes/s."""
        share = 1.0 if self.network is None or stride is None else self.network.share(stride)
        return self.node.nic_bandwidth_per_gpu_Bps * share

    def exchange_Bps(self, size: int, stride: int | None) -> float:
        """The same in an all-to-all of ``size`` ranks ``stride`` apart, mean over its exchanges."""
        share = 1.0 if self.network is None or stride is None else self.network.exchange_share(stride, size)
        return self.node.nic_bandwidth_per_gpu_Bps * share

    def bus_Bps(self, size: int, per_domain: int, stride: int | None = None) -> float:
        """Bus bandwidth of rings over ``size`` ranks with ``per_domain`` in each scale-up domain.

        Across domains every member drives its own share of the NICs, and inside each domain a ring has
        one hop less than members, so the inner links carry g/(g-1) of what they do alone: two MI300X
        nodes reach 8 x 45 = 360 GB/s where one reaches 315 (measured 351 to 374). Under TP8 a
        data-parallel ring has one GPU's NIC, under TP1 the whole node's.
        """
        if size <= per_domain:
            return self.scale_up_Bps(size)
        step = None if stride is None else stride * per_domain
        nics = self.nic_Bps(step) * per_domain * self.stack.scale_out_efficiency
        if per_domain == 1:
            return nics
        return min(self.scale_up_Bps(per_domain) * per_domain / (per_domain - 1), nics)

    def send_s(self, size_bytes: float, *, crosses_domains: bool, stride: int | None = None) -> float:
        """One point-to-point message of ``size_bytes``."""
        if crosses_domains:
            bandwidth = self.nic_Bps(stride) * self.stack.p2p_efficiency
            return self.node.nic.latency_s + size_bytes / bandwidth
        return self.node.scale_up.latency_s + size_bytes / self.scale_up_Bps(2)

    def _timed_s(self, passes: float, wire_s: float, ranks: Ranks, hops: int = 0) -> float:
        """The fastest protocol for ``wire_s`` on the wire in ``passes`` (2 for an all-reduce, else 1).

        ``hops``: domains that the message visits one after the other, beyond the first.
        """
        if ranks.domains == 1:
            return self._inside_s(passes, wire_s, ranks.inside)
        extra = passes * max(0, hops - 1) * self._hop_s(ranks.inside)
        across = self.protocols.across
        floor = min(p.latency_s for p in across)
        times = (p.latency_s * passes / 2.0 + wire_s / p.bandwidth for p in across)
        return max(floor * passes / 2.0, min(times)) + extra

    def _inside_s(self, passes: float, wire_s: float, group: int) -> float:
        """Latencies are measured over 8 GPUs; a ring of fewer has fewer hops."""
        n = min(self.node.scale_up.domain_gpus, MEASURED_GROUP)
        scale = passes / 2.0 * (group - 1) / max(1, n - 1)
        floor = self.node.scale_up.latency_s * scale
        half = 2.0 * (n - 1) / n * self.node.scale_up.half_bandwidth_bytes / self.scale_up_Bps(n) * scale
        times = (p.floors * floor + p.halves * half + wire_s / p.bandwidth for p in self.protocols.inside)
        return max(floor, min(times))

    def _hop_s(self, inside: int) -> float:
        """Passing one more domain on the way: its NIC and, for rings with members inside, its floor."""
        n = min(self.node.scale_up.domain_gpus, MEASURED_GROUP)
        return self.node.nic.latency_s + self.node.scale_up.latency_s / 2.0 * (inside - 1) / max(1, n - 1)

    def _algorithm_s(self, name: str, kind: str, size_bytes: float, ranks: Ranks) -> float:
        match name:
            case "ring":
                return self._ring_s(kind, size_bytes, ranks)
            case "tree":
                return self._tree_s(kind, size_bytes, ranks)
            case "hierarchical" if kind == "all_to_all":
                return self._hierarchical_all_to_all_s(size_bytes, ranks)
            case "hierarchical":
                return self._hierarchical_s(size_bytes, ranks)
            case "grouped":
                return self._grouped_s(size_bytes, ranks)
            case "pairwise":
                return self._pairwise_s(size_bytes, ranks)
            case "in-switch":
                return self._in_switch_s(size_bytes, ranks)
        return self._direct_s(size_bytes, ranks)

    def _ring_s(self, kind: str, size_bytes: float, ranks: Ranks) -> float:
        """Every domain in turn, at ring bandwidth; a broadcast passes the whole buffer, not (n-1)/n of it."""
        bus = self.bus_Bps(ranks.size, ranks.per_domain, ranks.stride)
        return self._timed_s(
            PASSES[kind], _wire_bytes(kind, size_bytes, ranks.size) / bus, ranks, ranks.domains - 1
        )

    def _tree_s(self, kind: str, size_bytes: float, ranks: Ranks) -> float:
        """Double binary tree over domains: log2 hops, a little less bandwidth than rings."""
        bus = self.bus_Bps(ranks.size, ranks.per_domain, ranks.stride) * TREE_BANDWIDTH
        hops = (ranks.domains - 1).bit_length()
        return self._timed_s(PASSES[kind], _wire_bytes(kind, size_bytes, ranks.size) / bus, ranks, hops)

    def _hierarchical_s(self, size_bytes: float, ranks: Ranks) -> float:
        """All-reduce as reduce-scatter inside, all-reduce across, all-gather inside, one after the other."""
        inner = Ranks(ranks.inside, ranks.inside, ranks.stride)
        step = None if ranks.stride is None else ranks.stride * ranks.per_domain
        outer = Ranks(ranks.domains, 1, step)
        part = size_bytes / ranks.inside
        across = min(self._ring_s("all_reduce", part, outer), self._tree_s("all_reduce", part, outer))
        inside = self._ring_s("reduce_scatter", size_bytes, inner) + self._ring_s(
            "all_gather", size_bytes, inner
        )
        return inside + across

    def _direct_s(self, size_bytes: float, ranks: Ranks) -> float:
        """All-to-all inside a domain: every pair at once, over its own link or the GPU's port.

        A message has one hop, however many ranks there are.
        """
        wire = size_bytes * (ranks.size - 1) / ranks.size / self._all_pairs_Bps(ranks.size)
        return self._inside_s(1.0, wire, min(ranks.size, MEASURED_GROUP))

    def _all_pairs_Bps(self, group: int) -> float:
        """What a GPU sends while all pairs of ``group`` GPUs exchange at once: measured, or the bus bandwidth."""
        exchanged = self.node.scale_up.exchange_bandwidth_Bps * self.stack.scale_up_efficiency
        return exchanged or self.scale_up_Bps(group)

    def _grouped_s(self, size_bytes: float, ranks: Ranks) -> float:
        """All-to-all with all sends and receives posted at once: links and NICs work side by side, the slower decides.

        What recommender frameworks get, whose exchanges across nodes keep both busy (docs/models.md).
        """
        if ranks.domains == 1:
            return self._direct_s(size_bytes, ranks)
        near = ranks.inside - 1
        inside = near * size_bytes / ranks.size / self._all_pairs_Bps(ranks.inside) if near else 0.0
        nic = self.exchange_Bps(ranks.size, ranks.stride) * self.stack.p2p_efficiency
        across = (ranks.size - ranks.inside) * size_bytes / ranks.size / nic
        return self._timed_s(1.0, max(inside, across), ranks, 1)

    def _pairwise_s(self, size_bytes: float, ranks: Ranks) -> float:
        """All-to-all as size-1 exchanges with one partner at a time.

        Two MI300X nodes then reach 45 to 50 GB/s of bus bandwidth, one link's or one NIC's rate.
        """
        part, near = size_bytes / ranks.size, ranks.inside - 1
        far = ranks.size - 1 - near
        wire = near * part / self.scale_up_Bps(2) if near else 0.0
        nic = self.exchange_Bps(ranks.size, ranks.stride) * self.stack.p2p_efficiency
        return self._timed_s(1.0, wire + far * part / nic, ranks, 1)

    def _hierarchical_all_to_all_s(self, size_bytes: float, ranks: Ranks) -> float:
        """Exchange inside so that each rank holds what its peers across need, then across, rail by rail."""
        inside = 0.0
        if ranks.inside > 1:
            inside = size_bytes * (ranks.inside - 1) / ranks.inside / self.scale_up_Bps(ranks.inside)
        step = None if ranks.stride is None else ranks.stride * ranks.per_domain
        nic = self.exchange_Bps(ranks.domains, step) * self.stack.scale_out_efficiency
        across = size_bytes * (ranks.domains - 1) / ranks.domains / nic
        return self._timed_s(1.0, inside + across, ranks, ranks.domains - 1)

    def _in_switch_s(self, size_bytes: float, ranks: Ranks) -> float:
        """The switch adds: the whole buffer leaves and enters each GPU once, whatever their number."""
        rate = self.node.scale_up.in_switch_bandwidth_Bps * self.stack.scale_up_efficiency
        return self._timed_s(2.0, size_bytes / rate, ranks)


def _wire_bytes(kind: str, size_bytes: float, size: int) -> float:
    """Bytes that a rank passes on along a ring."""
    share = 1.0 if kind in ("broadcast", "reduce") else (size - 1) / size
    return size_bytes * PASSES[kind] * share


def _interpolate(table: dict[int, float], x: int) -> float:
    keys = sorted(table)
    if x <= keys[0]:
        return table[keys[0]]
    for low, high in pairwise(keys):
        if x <= high:
            return table[low] + (table[high] - table[low]) * (x - low) / (high - low)
    return table[keys[-1]]
