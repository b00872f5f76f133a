"""From who-does-what to ordered tasks: schedules, gathers, reductions, sends.

Read ``build_program`` first. Keys of tasks: ``(kind, part, micro-batch, piece)`` for compute (kinds and
parts: ``sim.parallel.passes``), ``("S", kind, part, micro-batch)`` for pipeline sends,
``("AG"|"RS", ...)`` for parameter gathers and gradient reductions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from sim.ops import Collective, Host, Optimizer
from sim.parallel import feed
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.data_parallel import DataParallel
from sim.parallel.fully_sharded import FullySharded
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.parallel.messages import Messages
from sim.parallel.replica_exchange import ReplicaExchange
from sim.parallel.replicated import Replicated
from sim.parallel.schedule import Pass, Slot
from sim.parallel.sharding import Shard
from sim.parallel.stage import Part, Stage
from sim.parallel.strategy import Strategy
from sim.parallel.together import Together
from sim.program import COLLECTIVE, COMPUTE, Program, Work
from sim.workload.workload import Workload


def build_program(
    workload: Workload, layout: Layout, strategy: Strategy, *, domain_gpus: int, blocking_p2p: bool
) -> Program:
    """All tasks of one training step, one role per pipeline stage."""
    mesh = Mesh(layout, domain_gpus)
    planner = Planner(
        Shard(workload, layout, mesh, strategy.overlap_tp, strategy.overlap_ep), strategy, blocking_p2p
    )
    return planner.build()


@dataclass(frozen=True)
class Planner:
    shard: Shard
    strategy: Strategy
    blocking_p2p: bool

    @property
    def layout(self) -> Layout:
        return self.shard.layout

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(Stage(self.shard, s) for s in range(self.layout.pp))

    @cached_property
    def exchange(self) -> ReplicaExchange:
        return ReplicaExchange(self.layout, self.shard.mesh, self.strategy)

    @cached_property
    def data_parallel(self) -> DataParallel:
        parts = tuple(Part(self.shard, k) for k in range(self.layout.parts))
        scheme = FullySharded if self.layout.data_sharding == "fsdp" else Replicated
        return scheme(self.layout, self.strategy, self.exchange, parts)

    @cached_property
    def together(self) -> Together:
        return Together()

    @cached_property
    def messages(self) -> Messages:
        return Messages(self.shard)

    def build(self) -> Program:
        layout = self.layout
        builder = ProgramBuilder(layout.pp, layout.replica_of, layout.axes.stride("pp"))
        feed.start(builder, self.strategy.feed, self.layout.micro_batch * self.layout.microbatches)
        for stage in self.stages:
            self.data_parallel.prepare(builder, stage)
            self._run(builder, stage)
        for stage in self.stages:
            self._finish(builder, stage)
        feed.finish(builder, self.strategy.feed)
        program = builder.build(staggered=not self.strategy.optimizer_barrier)
        return replace(program, one_stream=self.strategy.one_stream)

    def _run(self, builder: ProgramBuilder, stage: Stage) -> None:
        sent: tuple[Key, ...] = ()
        parts = {part.index: part for part in stage.parts}
        for slot in self.layout.slots[stage.index]:
            arrivals = (self.messages.arrival(parts[one.part], one) for one in slot)
            waits = tuple(key for key in arrivals if key is not None)
            if self._sends_block:
                waits = (*waits, *(key for key in sent if builder.has(key)))
            self._run_slot(builder, parts, slot, waits)
            sent = tuple(self._send(builder, parts[one.part], one) for one in slot)

    def _run_slot(
        self, builder: ProgramBuilder, parts: dict[int, Part], slot: Slot, waits: tuple[Key, ...]
    ) -> None:
        if len(slot) == 1:
            self.data_parallel.run(builder, parts[slot[0].part], slot[0], waits)
            return
        key = self.together.run(builder, parts, slot, waits)
        for one in slot:
            self.data_parallel.follow(builder, parts[one.part], one, key)

    def _send(self, builder: ProgramBuilder, part: Part, one: Pass) -> Key:
        return self.messages.send(builder, part, one, self.data_parallel.end(part, one))

    @property
    def _sends_block(self) -> bool:
        return self.blocking_p2p or not self.strategy.overlap_pp

    # -- end of the step ---------------------------------------------------------------------------

    def _finish(self, builder: ProgramBuilder, stage: Stage) -> None:
        """Gradient exchange that was not overlapped, the norm barrier, optimizer, late gathers, host.

        Without the barrier a stage updates once its own gradients are complete; the norm is checked later and an
        update that should not have been is taken back (Qi et al. 2023, "Zero Bubble Pipeline Parallelism").
        """
        barrier = self.strategy.optimizer_barrier
        index, after = stage.index, self._last_pass(stage)
        self.data_parallel.finish(builder, stage, after)
        if self._shares_embedding(stage):
            self._tie(builder, stage, after)
        updated, offload = self.exchange.updated_here(stage.parameters), self.strategy.optimizer_offload
        final = tuple(k for s in (self.stages if barrier else (stage,)) for k in self._gradient_ends(s))
        on_host = offload is not None and offload.kind == "host"
        builder.add(
            ("optimizer", index),
            index,
            COMPUTE,
            "optimizer",
            "optimizer step",
            () if on_host else (Work(Optimizer(updated), "optimizer"),),
            waits=final,
            barrier=barrier,  # the norm of all gradients
        )
        step: Key = ("optimizer", index)
        if offload is not None:
            copied = offload.add(builder, index, updated, final, barrier=barrier)
            step = builder.add(
                ("updated", index), index, COMPUTE, "host", "states are back", (), waits=(step, copied)
            )
        last = self.data_parallel.publish(builder, stage, step)
        builder.add(("host", index), index, COMPUTE, "host", "host", (Work(Host(), "host"),), waits=(last,))

    def _tie(self, builder: ProgramBuilder, stage: Stage, after: Key) -> None:
        """First and last stage add up their gradients of a tied embedding, or their shards of them."""
        size = self.shard.embedding_parameters * self.strategy.gradient_bytes
        if self.layout.reduces_by_unit:
            size /= self.exchange.group.size
            after = next(iter(self.data_parallel.gradient_ends(stage)[-1:]), after)
        builder.add(
            ("tie", stage.index),
            stage.index,
            COLLECTIVE,
            "reduce",
            "reduce tied embedding",
            (Work(Collective("all_reduce", size, self.shard.mesh.embedding), "pipeline"),),
            waits=(after,),
            wait_cause="pipeline",
        )

    def _last_pass(self, stage: Stage) -> Key:
        one = self.layout.orders[stage.index][-1]
        part = next(part for part in stage.parts if part.index == one.part)
        return self.data_parallel.end(part, one)

    def _shares_embedding(self, stage: Stage) -> bool:
        tied = self.shard.workload.architecture.tied_embeddings and not self.shard.workload.frozen_base
        return tied and stage.has_embedding != stage.has_head

    def _gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        """The tasks after which this stage's gradients are final."""
        tie: tuple[Key, ...] = (("tie", stage.index),) if self._shares_embedding(stage) else ()
        return (self._last_pass(stage), *self.data_parallel.gradient_ends(stage), *tie)
