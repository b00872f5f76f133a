"""From who-does-what to ordered tasks: schedules, gathers, reductions, sends.

Read ``build_program`` first. Keys of tasks: ``(kind, part, micro-batch, piece)`` for compute (kinds and
parts: ``sim.parallel.passes``), ``("S", kind, part, micro-batch)`` for pipeline sends,
``("AG"|"RS", ...)`` for parameter gathers and gradient reductions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sim.ops import Collective, Group, Host, Optimizer
from sim.parallel import feed
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.layer_work import Weights, total
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.parallel.schedule import BACKWARD, FORWARD, WEIGHT, Order, Pass
from sim.parallel.sharding import Shard
from sim.parallel.stage import Part, Piece, Stage
from sim.parallel.strategy import Strategy
from sim.program import COLLECTIVE, COMPUTE, SEND, Program, Work
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
    def dp(self) -> Group:
        """Ranks that exchange gradients; under FSDP those that share one copy of the model."""
        return self.shard.mesh.shard if self.fsdp else self.shard.mesh.dp

    @property
    def fsdp(self) -> bool:
        return self.layout.data_sharding == "fsdp"

    @property
    def prefetch(self) -> int:
        """Layers gathered ahead; without overlap every gather and reduction is waited for."""
        return self.strategy.prefetch if self.strategy.overlap_dp else 0

    @property
    def zero_2(self) -> bool:
        return self.layout.data_sharding == "zero-2"

    @property
    def gathers_updates(self) -> bool:
        """Whether each replica updates a shard of the parameters and all of them gather the rest."""
        return self.exchanges and self.layout.data_sharding in ("zero-1", "zero-2")

    @cached_property
    def exchanges(self) -> bool:
        """Whether replicas exchange gradients of parameters that each of them holds whole."""
        return not self.fsdp and self.dp.size > 1

    def build(self) -> Program:
        builder = ProgramBuilder(self.layout.pp, self.layout.gpus // self.layout.pp)
        feed.start(builder, self.strategy.feed, self.layout.micro_batch * self.layout.microbatches)
        for stage in self.stages:
            self._gather_ahead(builder, stage)
            self._run(builder, stage)
        for stage in self.stages:
            self._finish(builder, stage)
        feed.finish(builder, self.strategy.feed)
        return builder.build()

    # -- compute ---------------------------------------------------------------------------------

    def _order(self, stage: Stage) -> Order:
        return self.layout.orders[stage.index]

    @cached_property
    def _final(self) -> dict[int, Pass]:
        """By part: the pass after which its gradients are complete."""
        final: dict[int, Pass] = {}
        for order in self.layout.orders:
            final |= {one.part: one for one in order if one.kind != FORWARD}
        return final

    @cached_property
    def _first_forward(self) -> dict[int, Pass]:
        """By part: the pass that meets its parameters first."""
        first: dict[int, Pass] = {}
        for order in self.layout.orders:
            for one in order:
                first.setdefault(one.part, one)
        return first

    def _pieces(self, part: Part, kind: str, microbatch: int) -> tuple[Piece, ...]:
        """Pieces in execution order; whole parts where nothing inside them is waited on."""
        this = Pass(kind, part.index, microbatch)
        fine = self.layout.pp == 1
        if self.exchanges and self.strategy.overlap_dp:
            fine |= this == self._final[part.index]
            fine |= this == self._first_forward[part.index] and self.gathers_updates
        pieces = part.pieces if fine else (part.whole,)
        return pieces if kind == FORWARD else tuple(reversed(pieces))

    def _run(self, builder: ProgramBuilder, stage: Stage) -> None:
        previous: Key | None = None
        parts = {part.index: part for part in stage.parts}
        for one in self._order(stage):
            part = parts[one.part]
            arrival = self._arrival(part, one)
            waits = () if arrival is None else (arrival,)
            if previous is not None and self._sends_block and builder.has(previous):
                waits = (*waits, previous)
            if self.fsdp:
                self._run_sharded(builder, part, one.kind, one.microbatch, waits)
            else:
                self._run_replicated(builder, part, one, waits)
            previous = self._send(builder, part, one)

    @property
    def _sends_block(self) -> bool:
        return self.blocking_p2p or not self.strategy.overlap_pp

    def _run_replicated(self, builder: ProgramBuilder, part: Part, one: Pass, waits: tuple[Key, ...]) -> None:
        pieces = self._pieces(part, one.kind, one.microbatch)
        reduction = self._reduction(part, one)
        reduces = reduction is not None and self.strategy.overlap_dp
        beside = "reduce" + "".join(f"/{word}" for word in (reduction or ())[1:])
        freed: Key = ("RS", part.index, one.microbatch - 1, "all gradients")
        if one.kind == FORWARD and builder.has(freed):
            waits = (*waits, freed)
        meets = one == self._first_forward[part.index]
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", part.index, piece.name)
            gathered = meets and builder.has(gather)
            window = None
            if reduces and i > 0:
                window = beside
            elif gathered and part.index == 0 and i < len(pieces) - 1:
                window = f"gather/{part.index}"
            key = self._compute(
                builder,
                part,
                one.kind,
                one.microbatch,
                piece,
                i,
                waits=(waits if i == 0 else ()) + ((gather,) if gathered else ()),
                window=window,
            )
            if reduces and reduction is not None and piece.parameters:
                hidden = None if i == len(pieces) - 1 else beside
                name: Key = (*reduction, piece.name)
                self._reduce(builder, part.stage, name, piece.parameters, key, hidden)
        if reduction and not reduces and one != self._final[part.index]:
            whole = (*reduction, "all gradients")
            parameters = total(piece.parameters for piece in pieces)
            self._reduce(
                builder, part.stage, whole, parameters, self._end(part, one.kind, one.microbatch), None
            )

    def _reduction(self, part: Part, one: Pass) -> Key | None:
        """First words of the keys of the reductions after a pass: one per step, under ZeRO-2 per micro-batch."""
        if not self.exchanges:
            return None
        if one == self._final[part.index]:
            return ("RS", part.index)
        return ("RS", part.index, one.microbatch) if self.zero_2 and one.kind == BACKWARD else None

    def _compute(
        self,
        builder: ProgramBuilder,
        part: Part,
        kind: str,
        microbatch: int,
        piece: Piece,
        position: int,
        *,
        waits: tuple[Key, ...],
        window: str | None,
    ) -> Key:
        return builder.add(
            (kind, part.index, microbatch, position),
            part.stage,
            COMPUTE,
            kind,
            f"{kind} {piece.name}",
            piece.work(kind),
            waits=waits,
            microbatch=microbatch,
            layers=piece.layers,
            window=window,
        )

    def _end(self, part: Part, kind: str, microbatch: int) -> Key:
        """Key of the task whose end completes this pass."""
        return (kind, part.index, microbatch, len(self._pieces(part, kind, microbatch)) - 1)

    # -- pipeline --------------------------------------------------------------------------------

    def _arrival(self, part: Part, one: Pass) -> Key | None:
        """The message that brings what the pass takes up; None where its own stage made it."""
        needed = one.needs(self.layout.parts)
        if needed is None or self.layout.placement.stage(needed.part) == part.stage:
            return None
        return ("S", needed.kind, needed.part, needed.microbatch)

    @cached_property
    def _messages(self) -> dict[tuple[int, int], tuple[Work, ...]]:
        """One message from a stage to another: all of them share one tuple, which is priced once."""
        place, mesh = self.layout.placement, self.shard.mesh
        stages = [place.stage(part) for part in range(self.layout.parts)]
        pairs = {pair for near, far in pairwise(stages) for pair in ((near, far), (far, near)) if near != far}
        return {
            (a, b): (Work(Collective("send", self.shard.activation_bytes, mesh.hop(a, b)), "pipeline"),)
            for a, b in sorted(pairs)
        }

    def _send(self, builder: ProgramBuilder, part: Part, one: Pass) -> Key:
        key: Key = ("S", one.kind, part.index, one.microbatch)
        target = part.index + (1 if one.kind == FORWARD else -1)
        if one.kind == WEIGHT or not 0 <= target < self.layout.parts:
            return key
        peer = self.layout.placement.stage(target)
        if peer != part.stage:
            builder.add(
                key,
                part.stage,
                SEND,
                "send",
                f"send {one.kind} to stage {peer}",
                self._messages[part.stage, peer],
                waits=(self._end(part, one.kind, one.microbatch),),
                microbatch=one.microbatch,
                peer=peer,
            )
        return key

    # -- data parallelism: replicated parameters ---------------------------------------------------

    def _gather_ahead(self, builder: ProgramBuilder, stage: Stage) -> None:
        """ZeRO-1: the parameters the last step updated arrive while its first forward runs.

        Only the first stage computes meanwhile; the others wait for their first micro-batch.
        """
        if not (self.gathers_updates and self.strategy.overlap_dp):
            return
        for part in stage.parts:
            for i, piece in enumerate(part.pieces):
                if piece.parameters:
                    window = f"gather/{part.index}" if i > 0 and part.index == 0 else None
                    key: Key = ("AG", part.index, piece.name)
                    self._gather(builder, stage.index, key, piece.parameters, (), window)

    def _gather(
        self,
        builder: ProgramBuilder,
        role: int,
        key: Key,
        parameters: Weights,
        waits: tuple[Key, ...],
        window: str | None,
        microbatch: int = 0,
    ) -> None:
        builder.add(
            key,
            role,
            COLLECTIVE,
            "gather",
            f"gather {key[-1]}",
            self._exchange("all_gather", parameters, self.strategy.parameter_bytes),
            waits=waits,
            microbatch=microbatch,
            window=window,
            wait_cause="data_parallel",
        )

    def _reduce(
        self,
        builder: ProgramBuilder,
        role: int,
        key: Key,
        parameters: Weights,
        after: Key,
        window: str | None,
        microbatch: int = 0,
    ) -> None:
        kind = "all_reduce" if self.layout.data_sharding == "ddp" else "reduce_scatter"
        builder.add(
            key,
            role,
            COLLECTIVE,
            "reduce",
            f"reduce {key[-1]}",
            (
                *self._exchange(kind, parameters, self.strategy.gradient_bytes),
                *self._across_copies(parameters),
            ),
            waits=(after,),
            microbatch=microbatch,
            window=window,
            wait_cause="data_parallel",
        )

    def _exchange(self, kind: str, parameters: Weights, element_bytes: float) -> tuple[Work, ...]:
        """One collective over all replicas; routed experts are exchanged among those that hold the same."""
        groups = ((parameters.shared, self.dp), (parameters.experts, self.shard.mesh.expert_dp))
        return tuple(
            Work(Collective(kind, count * element_bytes, group), "data_parallel")
            for count, group in groups
            if count
        )

    def _across_copies(self, parameters: Weights) -> tuple[Work, ...]:
        """HSDP: copies of the sharded model add up their shards of a gradient."""
        copies = self.shard.mesh.shard_replicas
        if copies.size == 1:
            return ()
        shard = parameters.shared * self.strategy.gradient_bytes / self.dp.size
        return (Work(Collective("all_reduce", shard, copies), "data_parallel"),)

    # -- data parallelism: fully sharded -----------------------------------------------------------

    def _run_sharded(
        self, builder: ProgramBuilder, part: Part, direction: str, microbatch: int, waits: tuple[Key, ...]
    ) -> None:
        """Gathers run ``prefetch`` layers ahead of the compute that needs them; reductions follow it.

        Embedding and head form one root unit, gathered first and kept until the backward ends.
        """
        if direction == FORWARD:
            self._forward_sharded(builder, part, microbatch, waits)
        else:
            self._backward_sharded(builder, part, microbatch)

    def _forward_sharded(
        self, builder: ProgramBuilder, part: Part, microbatch: int, waits: tuple[Key, ...]
    ) -> None:
        pieces = self._pieces(part, FORWARD, microbatch)
        communicates = self.dp.size > 1
        root: Key = ("AG", FORWARD, microbatch, "root")
        if communicates:
            previous: tuple[Key, ...] = ()
            if microbatch > 0:
                previous = (self._end(part, BACKWARD, microbatch - 1),)
            parameters = total(p.gathered for p in pieces if p.layers[0] == p.layers[1])
            self._gather(builder, part.stage, root, parameters, previous, None, microbatch)
        for i, piece in enumerate(pieces):
            if communicates and piece.layers[1] > piece.layers[0]:
                self._gather_layer(builder, part, FORWARD, microbatch, i, piece, root)
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", FORWARD, microbatch, piece.name)
            need = gather if builder.has(gather) else root
            self._compute(
                builder,
                part,
                FORWARD,
                microbatch,
                piece,
                i,
                waits=(waits if i == 0 else ()) + ((need,) if communicates else ()),
                window=self._window(FORWARD, microbatch, i),
            )

    def _gather_layer(
        self,
        builder: ProgramBuilder,
        part: Part,
        direction: str,
        microbatch: int,
        position: int,
        piece: Piece,
        first: Key,
    ) -> None:
        """Starts when the compute ``prefetch`` places before its own consumer starts."""
        before = position - 1 - self.prefetch
        waits: tuple[Key, ...] = ((direction, part.index, microbatch, before),) if before >= 0 else (first,)
        beside = position - 1 if self.prefetch else None
        window = None if beside is None or beside < 0 else self._window(direction, microbatch, beside)
        key: Key = ("AG", direction, microbatch, piece.name)
        self._gather(builder, part.stage, key, piece.gathered, waits, window, microbatch)

    def _backward_sharded(self, builder: ProgramBuilder, part: Part, microbatch: int) -> None:
        pieces = self._pieces(part, BACKWARD, microbatch)
        communicates = self.dp.size > 1
        forward_end = self._end(part, FORWARD, microbatch)
        pending: list[tuple[Piece, int]] = []
        for i, piece in enumerate(pieces):
            is_layer = piece.layers[1] > piece.layers[0]
            if communicates and is_layer and self.strategy.reshard:
                self._gather_layer(builder, part, BACKWARD, microbatch, i, piece, forward_end)
            reduced: tuple[Key, ...] = ()
            if communicates and len(pending) > self.prefetch:
                key = self._reduce_layer(builder, part, microbatch, *pending.pop(0))
                reduced = () if self.strategy.overlap_dp else key
            gather: Key = ("AG", BACKWARD, microbatch, piece.name)
            self._compute(
                builder,
                part,
                BACKWARD,
                microbatch,
                piece,
                i,
                waits=((gather,) if builder.has(gather) else (forward_end,)) + reduced,
                window=self._window(BACKWARD, microbatch, i),
            )
            if is_layer:
                pending.append((piece, i))
        if not communicates:
            return
        while pending:
            self._reduce_layer(builder, part, microbatch, *pending.pop(0))
        roots = total(p.parameters for p in pieces if p.layers[0] == p.layers[1])
        end = self._end(part, BACKWARD, microbatch)
        if roots:
            self._reduce(builder, part.stage, ("RS", microbatch, "root"), roots, end, None, microbatch)

    def _reduce_layer(
        self, builder: ProgramBuilder, part: Part, microbatch: int, piece: Piece, position: int
    ) -> tuple[Key, ...]:
        if not piece.parameters:
            return ()
        beside = position + 1
        pieces = len(self._pieces(part, BACKWARD, microbatch))
        window = None if beside >= pieces else self._window(BACKWARD, microbatch, beside)
        after: Key = (BACKWARD, part.index, microbatch, position)
        key: Key = ("RS", microbatch, piece.name)
        self._reduce(builder, part.stage, key, piece.parameters, after, window, microbatch)
        return (key,)

    def _window(self, direction: str, microbatch: int, position: int) -> str | None:
        if not self.strategy.overlap_dp or self.dp.size == 1:
            return None
        return f"{direction}/{microbatch}/{position}"

    # -- end of the step ---------------------------------------------------------------------------

    def _finish(self, builder: ProgramBuilder, stage: Stage) -> None:
        """Gradient exchange that was not overlapped, the norm barrier, optimizer, late gathers, host."""
        index = stage.index
        self._tail_exchange(builder, stage)
        barrier = tuple(k for s in self.stages for k in self._gradient_ends(s))
        replicated = self.layout.data_sharding == "ddp"
        share = stage.parameters.shared / (1 if replicated else self.dp.size)
        share += stage.parameters.experts / (1 if replicated else self.shard.mesh.expert_dp.size)
        builder.add(
            ("optimizer", index),
            index,
            COMPUTE,
            "optimizer",
            "optimizer step",
            (Work(Optimizer(share), "optimizer"),),
            waits=barrier,
            barrier=True,  # the norm of all gradients
        )
        last: Key = ("optimizer", index)
        if self.gathers_updates and not self.strategy.overlap_dp:
            key: Key = ("AG", index, "all parameters")
            self._gather(builder, index, key, stage.parameters, (last,), None)
            last = key
        builder.add(("host", index), index, COMPUTE, "host", "host", (Work(Host(), "host"),), waits=(last,))

    def _tail_exchange(self, builder: ProgramBuilder, stage: Stage) -> None:
        index = stage.index
        after = self._last_pass(stage)
        if self.exchanges and not self.strategy.overlap_dp and stage.parameters:
            self._reduce(builder, index, ("RS", index, "all gradients"), stage.parameters, after, None)
        if self._shares_embedding(stage):
            size = self.shard.embedding_parameters * self.strategy.gradient_bytes
            op = Collective("all_reduce", size, self.shard.mesh.embedding)
            builder.add(
                ("tie", index),
                index,
                COLLECTIVE,
                "reduce",
                "reduce tied embedding",
                (Work(op, "pipeline"),),
                waits=(after,),
                wait_cause="pipeline",
            )

    def _last_pass(self, stage: Stage) -> Key:
        one = self._order(stage)[-1]
        part = next(part for part in stage.parts if part.index == one.part)
        return self._end(part, one.kind, one.microbatch)

    def _shares_embedding(self, stage: Stage) -> bool:
        tied = self.shard.workload.architecture.tied_embeddings and not self.shard.workload.frozen_base
        return tied and stage.has_embedding != stage.has_head

    def _gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        """The tasks after which this stage's gradients are final."""
        index = stage.index
        ends: list[Key] = [self._last_pass(stage)]
        if self.exchanges and stage.parameters:
            if self.strategy.overlap_dp:
                for part in stage.parts:
                    ends += [("RS", part.index, p.name) for p in part.pieces if p.parameters][:1]
            else:
                ends.append(("RS", index, "all gradients"))
        if self.fsdp and self.dp.size > 1:
            part, m = stage.parts[0], self._final[stage.index].microbatch
            pieces = [p for p in self._pieces(part, BACKWARD, m) if p.parameters]
            roots = [p for p in pieces if p.layers[0] == p.layers[1]]
            ends.append(("RS", m, "root") if roots else ("RS", m, pieces[-1].name))
        if self._shares_embedding(stage):
            ends.append(("tie", index))
        return tuple(ends)
