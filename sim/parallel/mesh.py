"""Where ranks sit: which communicator spans which scale-up domains.

Ranks are laid out in the layout's order of axes, by default as Megatron does: neighbours in TP share a domain,
pipeline stages are furthest apart (docs/adr/017).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm

from sim.ops import Group
from sim.parallel.layout import Layout


@dataclass(frozen=True)
class Mesh:
    """Communicators of one ``layout`` over scale-up domains of ``domain_gpus`` GPUs."""

    layout: Layout
    domain_gpus: int

    @property
    def tp(self) -> Group:
        return self._group("tp", self.layout.tp, self.layout.axes.stride("tp"))

    @property
    def etp(self) -> Group:
        """Ranks that share the inner width of their experts."""
        stride = self.layout.expert_axes.stride("tp")
        same = (self.layout.experts_tp, stride) == (self.layout.tp, self.layout.axes.stride("tp"))
        return self._group("tp" if same else "etp", self.layout.experts_tp, stride)

    @property
    def dp(self) -> Group:
        """Replicas (context-parallel ranks included: they share gradients)."""
        return self._of_all_copies(self._replicas(self.layout.dp * self.layout.cp))

    @property
    def shard(self) -> Group:
        """Ranks that share the shards of one copy of the model: ``dp``, or part of it with replicas of it."""
        return self._replicas(self.layout.shard_ranks)

    @property
    def shard_replicas(self) -> Group:
        """Ranks that hold the same shard (HSDP)."""
        stride = self._replica_stride * self.layout.shard_ranks
        return self._group("dp replicas", self.layout.hsdp_replicas, stride)

    @property
    def cp(self) -> Group:
        """Ranks that hold parts of the same sequences."""
        return self._group("cp", self.layout.cp, self.layout.axes.stride("cp"))

    @property
    def cp_hop(self) -> Group:
        """One rank of ``cp`` and the next; the slowest hop of the ring counts."""
        inside = self.cp.size <= self.cp.per_domain
        return Group("cp", min(2, self.layout.cp), 2 if inside else 1, self.cp.stride, self.cp.within)

    @property
    def ep(self) -> Group:
        """Ranks that hold different experts of one layer."""
        return self._group("ep", self.layout.ep, self.layout.expert_axes.stride("ep"))

    @property
    def expert_dp(self) -> Group:
        """Ranks that hold the same experts."""
        stride = self.layout.expert_axes.stride("dp")
        return self._of_all_copies(self._group("expert dp", self.layout.expert_dp, stride))

    def hop(self, stage: int, other: int) -> Group:
        """Two stages that exchange messages; ``per_domain`` is 2 when each rank shares a domain with its peer."""
        low, high = min(stage, other), max(stage, other)
        width = self.layout.axes.stride("pp")
        inside = self._together(low, high)
        stride = width * (high - low)
        return Group(
            "pp", min(2, self.layout.pp), 2 if inside else 1, stride, self._apart(high - low, stride)
        )

    @property
    def embedding(self) -> Group:
        """First and last stage, which share a tied embedding."""
        last = self.layout.pp - 1
        inside = self._together(0, last)
        stride = self.layout.axes.stride("pp") * last
        return Group(
            "embedding", min(2, self.layout.pp), 2 if inside else 1, stride, self._apart(last, stride)
        )

    def loaders(self, host_gpus: int) -> int:
        """Ranks of the first host that load samples of their own: one of each tensor-parallel group on the first
        stage, which needs tokens, and on the last one, which needs labels. Context-parallel ranks load the whole
        sequence and keep their part."""
        axes = self.layout.axes
        ends = {0, self.layout.pp - 1}
        here = range(min(host_gpus, self.layout.gpus))
        loads = {
            tuple(axes.index(r, a) for a in ("cp", "dp", "pp")) for r in here if axes.index(r, "pp") in ends
        }
        return max(1, len(loads))

    def _together(self, low: int, high: int) -> bool:
        """Whether every rank of stage ``low`` shares a domain with its peer on stage ``high``.

        Ranks of a stage form runs of ``width``, one in every ``width``·pp; of a run and its peers the outermost
        two decide.
        """
        width, domain = self.layout.axes.stride("pp"), self.domain_gpus
        span = width * self.layout.pp
        runs = min(self.layout.gpus // span, lcm(span, domain) // span)
        starts = (run * span for run in range(runs))
        return all(
            (start + low * width) // domain == (start + (high + 1) * width - 1) // domain for start in starts
        )

    @property
    def _replica_stride(self) -> int:
        """Distance of neighbours in ``dp``."""
        axes = self.layout.axes
        strides = [axes.stride(axis) for axis in ("cp", "dp") if axes.size(axis) > 1]
        return min(strides, default=axes.stride("dp"))

    def _replicas(self, size: int) -> Group:
        """Ranks along ``cp`` and ``dp`` together, in domains as they come.

        With stages between the two axes the inner one counts first: it leaves a domain, or all of it lies inside
        and the outer one decides how often it repeats there.
        """
        axes = self.layout.axes
        inner, outer = sorted(("cp", "dp"), key=axes.stride)
        if min(axes.size("cp"), axes.size("dp")) == 1 or not axes.between(inner, outer):
            return self._group("dp", size, self._replica_stride)
        near = self._group("dp", axes.size(inner), axes.stride(inner))
        if near.per_domain < near.size:
            return Group("dp", size, near.per_domain, near.stride, near.stage_stride)
        far = self._group("dp", axes.size(outer), axes.stride(outer))
        return Group("dp", size, near.size * far.per_domain, far.stride // near.size, near.stage_stride)

    def _apart(self, stages: int, stride: int) -> int:
        """``Group.within`` of ranks on different stages: as if each stage followed the one before."""
        return 0 if self._stages_are_last else max(stride, stages * self.layout.gpus // self.layout.pp)

    @property
    def _stages_are_last(self) -> bool:
        return self.layout.axes.stride("pp") * self.layout.pp == self.layout.gpus

    def _of_all_copies(self, group: Group) -> Group:
        """``group`` and its counterpart at the mirrored stage of a pipeline that holds the model twice.

        First and last stage are the furthest apart; they are priced.
        """
        copies = self.layout.placement.copies
        if copies == 1:
            return group
        last = self.layout.pp - 1
        inside = copies if self._together(0, last) else 1
        stride = group.stride if group.size > 1 else self.layout.axes.stride("pp") * last
        return replace(group, size=group.size * copies, per_domain=group.per_domain * inside, stride=stride)

    def _group(self, axis: str, size: int, stride: int) -> Group:
        """Groups that do not tile a domain straddle its border; the worst-placed one is priced."""
        within = self._within(stride)
        inside = min(size, self.domain_gpus // stride)
        if inside < 1:
            return Group(axis, size, 1, stride, within)
        whole = self.layout.gpus <= self.domain_gpus or self.domain_gpus % (inside * stride) == 0
        if not whole:
            inside = max(1, gcd(inside * stride, self.domain_gpus) // stride)
        return Group(axis, size, inside, stride, within)

    def _within(self, stride: int) -> int:
        """``stride`` counted among the ranks of one stage; 0 where that is the same."""
        beyond = stride > self.layout.axes.stride("pp") and not self._stages_are_last
        return stride // self.layout.pp if beyond else 0
