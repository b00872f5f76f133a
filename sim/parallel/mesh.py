"""Where ranks sit: which communicator spans which scale-up domains.

Ranks are laid out tensor-parallel first, then context-parallel, data-parallel and pipeline, as Megatron does by
default: neighbours in TP share a domain, pipeline stages are furthest apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from sim.ops import Group
from sim.parallel.layout import Layout


@dataclass(frozen=True)
class Mesh:
    """Communicators of one ``layout`` over scale-up domains of ``domain_gpus`` GPUs."""

    layout: Layout
    domain_gpus: int

    @property
    def tp(self) -> Group:
        return self._group("tp", self.layout.tp, stride=1)

    @property
    def dp(self) -> Group:
        """Replicas (context-parallel ranks included: they share gradients)."""
        return self._of_all_copies(self._group("dp", self.layout.dp * self.layout.cp, stride=self.layout.tp))

    @property
    def shard(self) -> Group:
        """Ranks that share the shards of one copy of the model: ``dp``, or part of it with replicas of it."""
        return self._group("dp", self.layout.shard_ranks, stride=self.layout.tp)

    @property
    def shard_replicas(self) -> Group:
        """Ranks that hold the same shard (HSDP)."""
        stride = self.layout.tp * self.layout.shard_ranks
        return self._group("dp replicas", self.layout.hsdp_replicas, stride=stride)

    @property
    def cp(self) -> Group:
        """Ranks that hold parts of the same sequences: neighbours of one tensor-parallel rank."""
        return self._group("cp", self.layout.cp, stride=self.layout.tp)

    @property
    def cp_hop(self) -> Group:
        """One rank of ``cp`` and the next; the slowest hop of the ring counts."""
        inside = self.cp.size <= self.cp.per_domain
        return Group("cp", min(2, self.layout.cp), 2 if inside else 1, self.layout.tp)

    @property
    def ep(self) -> Group:
        """Ranks that hold different experts of one layer: neighbouring replicas."""
        return self._group("ep", self.layout.ep, stride=self.layout.tp)

    @property
    def expert_dp(self) -> Group:
        """Ranks that hold the same experts."""
        same = self.layout.dp * self.layout.cp // self.layout.ep
        return self._of_all_copies(self._group("expert dp", same, stride=self.layout.tp * self.layout.ep))

    def hop(self, stage: int, other: int) -> Group:
        """Two stages that exchange messages; ``per_domain`` is 2 when all their ranks share a domain."""
        width = self.layout.tp * self.layout.dp * self.layout.cp
        low, high = min(stage, other), max(stage, other)
        first, last = low * width, (high + 1) * width - 1
        inside = first // self.domain_gpus == last // self.domain_gpus
        return Group("pp", min(2, self.layout.pp), 2 if inside else 1, width * (high - low))

    @property
    def embedding(self) -> Group:
        """First and last stage, which share a tied embedding."""
        inside = self.layout.gpus <= self.domain_gpus
        stride = self.layout.gpus // self.layout.pp * (self.layout.pp - 1)
        return Group("embedding", min(2, self.layout.pp), 2 if inside else 1, stride)

    def _of_all_copies(self, group: Group) -> Group:
        """``group`` and its counterpart at the mirrored stage of a pipeline that holds the model twice.

        First and last stage are the furthest apart; they are priced.
        """
        copies = self.layout.placement.copies
        if copies == 1:
            return group
        inside = copies if self.layout.gpus <= self.domain_gpus else 1
        apart = self.layout.gpus // self.layout.pp * (self.layout.pp - 1)
        stride = group.stride if group.size > 1 else apart
        return Group(group.axis, group.size * copies, group.per_domain * inside, stride)

    def _group(self, axis: str, size: int, stride: int) -> Group:
        """Groups that do not tile a domain straddle its border; the worst-placed one is priced."""
        inside = min(size, self.domain_gpus // stride)
        if inside < 1:
            return Group(axis, size, 1, stride)
        whole = self.layout.gpus <= self.domain_gpus or self.domain_gpus % (inside * stride) == 0
        if not whole:
            inside = max(1, gcd(inside * stride, self.domain_gpus) // stride)
        return Group(axis, size, inside, stride)
