"""From who-does-what to ordered tasks: schedules, gathers, reductions, sends.

Read ``build_program`` first. Keys of tasks: ``("F"|"B", stage, micro-batch, piece)`` for compute,
``("S", direction, stage, micro-batch)`` for pipeline sends, ``("AG"|"RS", ...)`` for parameter
gathers and gradient reductions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.ops import Collective, Group, Host, Optimizer
from sim.parallel.builder import Key, ProgramBuilder
from sim.parallel.layout import Layout
from sim.parallel.mesh import Mesh
from sim.parallel.schedule import BACKWARD, FORWARD, stage_order
from sim.parallel.sharding import Shard
from sim.parallel.stage import Piece, Stage
from sim.parallel.strategy import Strategy
from sim.program import COLLECTIVE, COMPUTE, SEND, Program, Work
from sim.workload.workload import Workload


def build_program(
    workload: Workload, layout: Layout, strategy: Strategy, *, domain_gpus: int, blocking_p2p: bool
) -> Program:
    """All tasks of one training step, one role per pipeline stage."""
    mesh = Mesh(layout, domain_gpus)
    planner = Planner(Shard(workload, layout, mesh, strategy.overlap_tp), strategy, blocking_p2p)
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

    @property
    def dp(self) -> Group:
        return self.shard.mesh.dp

    @property
    def fsdp(self) -> bool:
        return self.layout.data_sharding == "fsdp"

    @property
    def prefetch(self) -> int:
        """Layers gathered ahead; without overlap every gather and reduction is waited for."""
        return self.strategy.prefetch if self.strategy.overlap_dp else 0

    @property
    def exchanges(self) -> bool:
        """Whether replicas exchange whole gradients (and shards of parameters) once per step."""
        return not self.fsdp and self.dp.size > 1

    def build(self) -> Program:
        builder = ProgramBuilder(self.layout.pp)
        for stage in self.stages:
            self._gather_ahead(builder, stage)
            self._run(builder, stage)
        for stage in self.stages:
            self._finish(builder, stage)
        return builder.build()

    # -- compute ---------------------------------------------------------------------------------

    @cached_property
    def _orders(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        layout = self.layout
        return tuple(
            stage_order(layout.schedule, s, layout.pp, layout.microbatches) for s in range(layout.pp)
        )

    def _order(self, stage: Stage) -> tuple[tuple[str, int], ...]:
        return self._orders[stage.index]

    def _last_backward(self, stage: Stage) -> int:
        return self._order(stage)[-1][1]

    def _first_forward(self, stage: Stage) -> int:
        return self._order(stage)[0][1]

    def _pieces(self, stage: Stage, direction: str, microbatch: int) -> tuple[Piece, ...]:
        """Pieces in execution order; whole stages where nothing inside them is waited on."""
        fine = self.layout.pp == 1
        if self.exchanges and self.strategy.overlap_dp:
            fine |= direction == BACKWARD and microbatch == self._last_backward(stage)
            fine |= (
                direction == FORWARD
                and microbatch == self._first_forward(stage)
                and self.layout.data_sharding == "zero-1"
            )
        pieces = stage.pieces if fine else (stage.whole,)
        return pieces if direction == FORWARD else tuple(reversed(pieces))

    def _run(self, builder: ProgramBuilder, stage: Stage) -> None:
        previous: Key | None = None
        for direction, microbatch in self._order(stage):
            arrival = self._arrival(stage, direction, microbatch)
            waits = () if arrival is None else (arrival,)
            if previous is not None and self._sends_block and builder.has(previous):
                waits = (*waits, previous)
            if self.fsdp:
                self._run_sharded(builder, stage, direction, microbatch, waits)
            else:
                self._run_replicated(builder, stage, direction, microbatch, waits)
            previous = self._send(builder, stage, direction, microbatch)

    @property
    def _sends_block(self) -> bool:
        return self.blocking_p2p or not self.strategy.overlap_pp

    def _run_replicated(
        self, builder: ProgramBuilder, stage: Stage, direction: str, microbatch: int, waits: tuple[Key, ...]
    ) -> None:
        pieces = self._pieces(stage, direction, microbatch)
        reduces = self.exchanges and self.strategy.overlap_dp
        reduces = reduces and direction == BACKWARD and microbatch == self._last_backward(stage)
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", stage.index, piece.name)
            gathered = builder.has(gather) and direction == FORWARD
            if microbatch != self._first_forward(stage):
                gathered = False
            window = None
            if reduces and i > 0:
                window = f"reduce/{stage.index}"
            elif gathered and stage.index == 0 and i < len(pieces) - 1:
                window = f"gather/{stage.index}"
            key = self._compute(
                builder,
                stage,
                direction,
                microbatch,
                piece,
                i,
                waits=(waits if i == 0 else ()) + ((gather,) if gathered else ()),
                window=window,
            )
            if reduces and piece.parameters:
                hidden = None if i == len(pieces) - 1 else f"reduce/{stage.index}"
                self._reduce(builder, stage, ("RS", stage.index, piece.name), piece.parameters, key, hidden)

    def _compute(
        self,
        builder: ProgramBuilder,
        stage: Stage,
        direction: str,
        microbatch: int,
        piece: Piece,
        position: int,
        *,
        waits: tuple[Key, ...],
        window: str | None,
    ) -> Key:
        work = piece.forward if direction == FORWARD else piece.backward
        return builder.add(
            (direction, stage.index, microbatch, position),
            stage.index,
            COMPUTE,
            direction,
            f"{direction} {piece.name}",
            work,
            waits=waits,
            microbatch=microbatch,
            layers=piece.layers,
            window=window,
        )

    def _end(self, stage: Stage, direction: str, microbatch: int) -> Key:
        """Key of the task whose end completes this pass."""
        return (direction, stage.index, microbatch, len(self._pieces(stage, direction, microbatch)) - 1)

    # -- pipeline --------------------------------------------------------------------------------

    def _arrival(self, stage: Stage, direction: str, microbatch: int) -> Key | None:
        if direction == FORWARD:
            source = stage.index - 1
            return None if source < 0 else ("S", FORWARD, source, microbatch)
        source = stage.index + 1
        return None if source >= self.layout.pp else ("S", BACKWARD, source, microbatch)

    def _send(self, builder: ProgramBuilder, stage: Stage, direction: str, microbatch: int) -> Key:
        key: Key = ("S", direction, stage.index, microbatch)
        target = stage.index + (1 if direction == FORWARD else -1)
        if 0 <= target < self.layout.pp:
            hop = self.shard.mesh.hop(min(stage.index, target))
            op = Collective("send", self.shard.activation_bytes, hop)
            builder.add(
                key,
                stage.index,
                SEND,
                "send",
                f"send {direction} to stage {target}",
                (Work(op, "pipeline"),),
                waits=(self._end(stage, direction, microbatch),),
                microbatch=microbatch,
            )
        return key

    # -- data parallelism: replicated parameters ---------------------------------------------------

    def _gather_ahead(self, builder: ProgramBuilder, stage: Stage) -> None:
        """ZeRO-1: the parameters the last step updated arrive while its first forward runs.

        Only the first stage computes meanwhile; the others wait for their first micro-batch.
        """
        if not (self.exchanges and self.strategy.overlap_dp and self.layout.data_sharding == "zero-1"):
            return
        for i, piece in enumerate(stage.pieces):
            if piece.parameters:
                window = f"gather/{stage.index}" if i > 0 and stage.index == 0 else None
                self._gather(builder, stage, ("AG", stage.index, piece.name), piece.parameters, (), window)

    def _gather(
        self,
        builder: ProgramBuilder,
        stage: Stage,
        key: Key,
        parameters: float,
        waits: tuple[Key, ...],
        window: str | None,
        microbatch: int = 0,
    ) -> None:
        op = Collective("all_gather", parameters * self.strategy.parameter_bytes, self.dp)
        builder.add(
            key,
            stage.index,
            COLLECTIVE,
            "gather",
            f"gather {key[-1]}",
            (Work(op, "data_parallel"),),
            waits=waits,
            microbatch=microbatch,
            window=window,
            wait_cause="data_parallel",
        )

    def _reduce(
        self,
        builder: ProgramBuilder,
        stage: Stage,
        key: Key,
        parameters: float,
        after: Key,
        window: str | None,
        microbatch: int = 0,
    ) -> None:
        kind = "all_reduce" if self.layout.data_sharding == "ddp" else "reduce_scatter"
        op = Collective(kind, parameters * self.strategy.gradient_bytes, self.dp)
        builder.add(
            key,
            stage.index,
            COLLECTIVE,
            "reduce",
            f"reduce {key[-1]}",
            (Work(op, "data_parallel"),),
            waits=(after,),
            microbatch=microbatch,
            window=window,
            wait_cause="data_parallel",
        )

    # -- data parallelism: fully sharded -----------------------------------------------------------

    def _run_sharded(
        self, builder: ProgramBuilder, stage: Stage, direction: str, microbatch: int, waits: tuple[Key, ...]
    ) -> None:
        """Gathers run ``prefetch`` layers ahead of the compute that needs them; reductions follow it.

        Embedding and head form one root unit, gathered first and kept until the backward ends.
        """
        if direction == FORWARD:
            self._forward_sharded(builder, stage, microbatch, waits)
        else:
            self._backward_sharded(builder, stage, microbatch)

    def _forward_sharded(
        self, builder: ProgramBuilder, stage: Stage, microbatch: int, waits: tuple[Key, ...]
    ) -> None:
        pieces = self._pieces(stage, FORWARD, microbatch)
        communicates = self.dp.size > 1
        root: Key = ("AG", FORWARD, microbatch, "root")
        if communicates:
            previous: tuple[Key, ...] = ()
            if microbatch > 0:
                previous = (self._end(stage, BACKWARD, microbatch - 1),)
            parameters = sum(p.gathered for p in pieces if p.layers[0] == p.layers[1])
            self._gather(builder, stage, root, parameters, previous, None, microbatch)
        for i, piece in enumerate(pieces):
            if communicates and piece.layers[1] > piece.layers[0]:
                self._gather_layer(builder, stage, FORWARD, microbatch, i, piece, root)
        for i, piece in enumerate(pieces):
            gather: Key = ("AG", FORWARD, microbatch, piece.name)
            need = gather if builder.has(gather) else root
            self._compute(
                builder,
                stage,
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
        stage: Stage,
        direction: str,
        microbatch: int,
        position: int,
        piece: Piece,
        first: Key,
    ) -> None:
        """Starts when the compute ``prefetch`` places before its own consumer starts."""
        before = position - 1 - self.prefetch
        waits: tuple[Key, ...] = ((direction, stage.index, microbatch, before),) if before >= 0 else (first,)
        beside = position - 1 if self.prefetch else None
        window = None if beside is None or beside < 0 else self._window(direction, microbatch, beside)
        key: Key = ("AG", direction, microbatch, piece.name)
        self._gather(builder, stage, key, piece.gathered, waits, window, microbatch)

    def _backward_sharded(self, builder: ProgramBuilder, stage: Stage, microbatch: int) -> None:
        pieces = self._pieces(stage, BACKWARD, microbatch)
        communicates = self.dp.size > 1
        forward_end = self._end(stage, FORWARD, microbatch)
        pending: list[tuple[Piece, int]] = []
        for i, piece in enumerate(pieces):
            is_layer = piece.layers[1] > piece.layers[0]
            if communicates and is_layer and self.strategy.reshard:
                self._gather_layer(builder, stage, BACKWARD, microbatch, i, piece, forward_end)
            reduced: tuple[Key, ...] = ()
            if communicates and len(pending) > self.prefetch:
                key = self._reduce_layer(builder, stage, microbatch, *pending.pop(0))
                reduced = () if self.strategy.overlap_dp else key
            gather: Key = ("AG", BACKWARD, microbatch, piece.name)
            self._compute(
                builder,
                stage,
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
            self._reduce_layer(builder, stage, microbatch, *pending.pop(0))
        roots = sum(p.parameters for p in pieces if p.layers[0] == p.layers[1])
        end = self._end(stage, BACKWARD, microbatch)
        if roots:
            self._reduce(builder, stage, ("RS", microbatch, "root"), roots, end, None, microbatch)

    def _reduce_layer(
        self, builder: ProgramBuilder, stage: Stage, microbatch: int, piece: Piece, position: int
    ) -> tuple[Key, ...]:
        if not piece.parameters:
            return ()
        beside = position + 1
        pieces = len(self._pieces(stage, BACKWARD, microbatch))
        window = None if beside >= pieces else self._window(BACKWARD, microbatch, beside)
        after: Key = (BACKWARD, stage.index, microbatch, position)
        key: Key = ("RS", microbatch, piece.name)
        self._reduce(builder, stage, key, piece.parameters, after, window, microbatch)
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
        share = stage.parameters / (1 if replicated else self.dp.size)
        builder.add(
            ("optimizer", index),
            index,
            COMPUTE,
            "optimizer",
            "optimizer step",
            (Work(Optimizer(share), "optimizer"),),
            waits=barrier,
        )
        last: Key = ("optimizer", index)
        if self.exchanges and not self.strategy.overlap_dp and self.layout.data_sharding == "zero-1":
            key: Key = ("AG", index, "all parameters")
            self._gather(builder, stage, key, stage.parameters, (last,), None)
            last = key
        builder.add(("host", index), index, COMPUTE, "host", "host", (Work(Host(), "host"),), waits=(last,))

    def _tail_exchange(self, builder: ProgramBuilder, stage: Stage) -> None:
        index = stage.index
        after = self._end(stage, BACKWARD, self._last_backward(stage))
        if self.exchanges and not self.strategy.overlap_dp and stage.parameters:
            self._reduce(builder, stage, ("RS", index, "all gradients"), stage.parameters, after, None)
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

    def _shares_embedding(self, stage: Stage) -> bool:
        tied = self.shard.workload.architecture.tied_embeddings and not self.shard.workload.frozen_base
        return tied and self.layout.pp > 1 and (stage.has_embedding or stage.has_head)

    def _gradient_ends(self, stage: Stage) -> tuple[Key, ...]:
        """The tasks after which this stage's gradients are final."""
        index = stage.index
        ends: list[Key] = [self._end(stage, BACKWARD, self._last_backward(stage))]
        if self.exchanges and stage.parameters:
            if self.strategy.overlap_dp:
                last = [p for p in reversed(stage.pieces) if p.parameters][-1]
                ends.append(("RS", index, last.name))
            else:
                ends.append(("RS", index, "all gradients"))
        if self.fsdp and self.dp.size > 1:
            m = self._last_backward(stage)
            pieces = [p for p in self._pieces(stage, BACKWARD, m) if p.parameters]
            roots = [p for p in pieces if p.layers[0] == p.layers[1]]
            ends.append(("RS", m, "root") if roots else ("RS", m, pieces[-1].name))
        if self._shares_embedding(stage):
            ends.append(("tie", index))
        return tuple(ends)
