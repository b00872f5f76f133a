"""Where ranks sit: which communicator spans which scale-up domains.

Ranks are laid out tensor-parallel first, then data-parallel, then pipeline, as Megatron does by
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
        return self._group("dp", self.layout.dp * self.layout.cp, stride=self.layout.tp)

    def hop(self, stage: int) -> Group:
        """``stage`` and the next one; ``per_domain`` is 2 when all their ranks share a domain."""
        width = self.layout.tp * self.layout.dp * self.layout.cp
        first, last = stage * width, (stage + 2) * width - 1
        inside = first // self.domain_gpus == last // self.domain_gpus
        return Group("pp", min(2, self.layout.pp), 2 if inside else 1, width)

    @property
    def embedding(self) -> Group:
        """First and last stage, which share a tied embedding."""
        inside = self.layout.gpus <= self.domain_gpus
        stride = self.layout.gpus // self.layout.pp * (self.layout.pp - 1)
        return Group("embedding", min(2, self.layout.pp), 2 if inside else 1, stride)

    def _group(self, axis: str, size: int, stride: int) -> Group:
        """Groups that do not tile a domain straddle its border; the worst-placed one is priced."""
        inside = min(size, self.domain_gpus // stride)
        if inside < 1:
            return Group(axis, size, 1, stride)
        whole = self.layout.gpus <= self.domain_gpus or self.domain_gpus % (inside * stride) == 0
        if not whole:
            inside = max(1, gcd(inside * stride, self.domain_gpus) // stride)
        return Group(axis, size, inside, stride)
