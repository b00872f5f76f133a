"""Gathers of parameters and reductions of gradients among replicas, as tasks on the collective stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.ops import Collective, Group
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.layer_work import Weights
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.parallel.strategy import Strategy
from sim.program import COLLECTIVE, Work


@dataclass(frozen=True)
class ReplicaExchange:
    """What replicas of one ``layout`` send each other. Keys of its tasks: ``("AG"|"RS", ...)``.

    ``collectives``: in how many parts shared parameters and experts travel, one after the other.
    """

    layout: Layout
    mesh: Mesh
    strategy: Strategy

    @cached_property
    def group(self) -> Group:
        """Ranks that exchange gradients; under FSDP those that share one copy of the model."""
        return self.mesh.shard if self.layout.data_sharding == "fsdp" else self.mesh.dp

    @property
    def needed(self) -> bool:
        return self.group.size > 1

    def gather(
        self,
        builder: ProgramBuilder,
        role: int,
        key: Key,
        parameters: Weights,
        waits: tuple[Key, ...],
        window: str | None,
        microbatch: int = 0,
        collectives: tuple[int, int] = (1, 1),
    ) -> None:
        builder.add(
            key,
            role,
            COLLECTIVE,
            "gather",
            f"gather {key[-1]}",
            self._collectives("all_gather", parameters, self.strategy.parameter_bytes, collectives),
            waits=waits,
            microbatch=microbatch,
            window=window,
            wait_cause="data_parallel",
        )

    def reduce(
        self,
        builder: ProgramBuilder,
        role: int,
        key: Key,
        parameters: Weights,
        after: Key,
        window: str | None,
        microbatch: int = 0,
        collectives: tuple[int, int] = (1, 1),
    ) -> None:
        kind = "all_reduce" if self.layout.data_sharding == "ddp" else "reduce_scatter"
        builder.add(
            key,
            role,
            COLLECTIVE,
            "reduce",
            f"reduce {key[-1]}",
            (
                *self._collectives(kind, parameters, self.strategy.gradient_bytes, collectives),
                *self._across_copies(parameters),
            ),
            waits=(after,),
            microbatch=microbatch,
            window=window,
            wait_cause="data_parallel",
        )

    def updated_here(self, parameters: Weights) -> float:
        """Parameters whose optimizer step this rank runs: all of them, or its shard."""
        if self.layout.data_sharding == "ddp":
            return parameters.shared + parameters.experts
        return parameters.shared / self.group.size + parameters.experts / self.mesh.expert_dp.size

    def _collectives(
        self, kind: str, parameters: Weights, element_bytes: float, collectives: tuple[int, int]
    ) -> tuple[Work, ...]:
        """Over all replicas; routed experts are exchanged among those that hold the same."""
        groups = ((parameters.shared, self.group), (parameters.experts, self.mesh.expert_dp))
        return tuple(
            Work(Collective(kind, count * element_bytes / times, group), "data_parallel", times)
            for (count, group), times in zip(groups, collectives, strict=True)
            if count
        )

    def _across_copies(self, parameters: Weights) -> tuple[Work, ...]:
        """HSDP: copies of the sharded model add up their shards of a gradient."""
        copies = self.mesh.shard_replicas
        if copies.size == 1:
            return ()
        shard = parameters.shared * self.strategy.gradient_bytes / self.group.size
        return (Work(Collective("all_reduce", shard, copies), "data_parallel"),)
