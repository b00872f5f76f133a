"""How the ranks are divided: degrees, stages, micro-batches. The answer to "who"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sim.axes import AXES, Axes
from sim.parallel.passes import Order, Pass, Slot
from sim.parallel.placement import Placement
from sim.parallel.schedule import WEIGHT, held_at_most, orders, placement, slots


@dataclass(frozen=True)
class Recompute:
    """``kind``: ``none``, ``selective`` (``modules``), ``operator`` or ``full``; layers of each stage, from its first.

    ``early_stop``: recomputation ends once every saved tensor exists again, so the last linear layer
    of a block is not run twice (PyTorch's non-reentrant checkpointing).
    """

    kind: str
    layers: tuple[int, ...]  # recomputed layers per stage
    early_stop: bool = False
    modules: tuple[str, ...] = ("core_attn",)  # selective: parts of a layer, in Megatron-LM's words


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism and what follows from them. ``dp`` is derived from the GPU count."""

    tp: int
    cp: int
    pp: int
    dp: int
    stage_layers: tuple[int, ...]
    micro_batch: int  # sequences
    microbatches: int  # per replica and step
    sequence_parallel: bool
    data_sharding: str  # "ddp" | "zero-1" | "zero-2" | "fsdp"
    schedule: str  # a name that sim.parallel.schedule knows
    recompute: Recompute
    cp_method: str = "ring"  # "ring" | "all-gather" | "all-to-all"
    hsdp_replicas: int = 1  # fsdp: copies of the sharded model; divides dp·cp
    ep: int = 1  # ranks that hold different experts; ep·etp divides tp·cp·dp
    etp: int | None = None  # ranks that share one expert; None: tp
    order: tuple[str, ...] = AXES  # axes over the ranks, neighbours first
    gradient_sync: str = "every"  # zero-2, fsdp: micro-batches that reduce their gradients, "every" | "last"
    part_layers: tuple[int, ...] = ()  # of each part in model order, copies too; empty: one part per stage
    part_recomputed: tuple[int, ...] = ()  # layers of each part that are recomputed
    recomputed_ids: frozenset[int] | None = None  # which ones; None: from the first of each part
    offloaded: int = 0  # first layers of the model whose activations wait in host memory; no pipeline

    @property
    def gpus(self) -> int:
        return self.tp * self.cp * self.pp * self.dp

    @property
    def experts_tp(self) -> int:
        """Ranks over which the inner width of a routed expert is split."""
        return self.tp if self.etp is None else self.etp

    @property
    def expert_dp(self) -> int:
        """Ranks that hold the same part of the same experts."""
        return self.tp * self.cp * self.dp // (self.ep * self.experts_tp)

    @cached_property
    def axes(self) -> Axes:
        """How all but routed experts is divided."""
        return Axes.of(self.order, tp=self.tp, cp=self.cp, dp=self.dp, pp=self.pp)

    @cached_property
    def replica_of(self) -> tuple[int, ...]:
        """Which replica each rank of a stage belongs to."""
        stage = Axes.of(self.order, tp=self.tp, cp=self.cp, dp=self.dp)
        return tuple(stage.index(rank, "dp") for rank in range(self.tp * self.cp * self.dp))

    @cached_property
    def expert_axes(self) -> Axes:
        """How routed experts are divided, over the same ranks: ``dp`` counts copies of them."""
        return Axes.of(self.order, tp=self.experts_tp, ep=self.ep, dp=self.expert_dp, pp=self.pp)

    @property
    def shard_ranks(self) -> int:
        """Ranks that share one copy of what ``data_sharding`` shards; context-parallel ones count too, and in a
        pipeline that holds the model twice both copies."""
        return self.dp * self.cp * self.placement.copies // self.hsdp_replicas

    @property
    def reduces_by_unit(self) -> bool:
        """Gradients leave a backward as the buffers of single units, of which each rank keeps its shard."""
        return self.data_sharding in ("zero-2", "fsdp")

    @property
    def shards_gradients(self) -> bool:
        """Whole gradients do not outlive the backward of their layer."""
        return self.reduces_by_unit and self.gradient_sync == "every"

    @property
    def parts(self) -> int:
        """Parts that the model is cut into, one per stage and virtual stage; those of both copies if there are two."""
        return self.placement.parts

    @property
    def depth(self) -> int:
        """Parts that a micro-batch goes through."""
        return self.placement.depth

    def first_layer(self, part: int) -> int:
        """Global id of the first layer of ``part``."""
        return sum(self.layers_of_part(earlier) for earlier in range(part - part % self.depth, part))

    @cached_property
    def placement(self) -> Placement:
        return placement(self.schedule, self.pp, max(1, len(self.part_layers) // self.pp))

    def layers_of_part(self, part: int) -> int:
        return (self.part_layers or self.stage_layers)[part]

    def recomputes(self, part: int, layer: int) -> bool:
        """Whether ``layer`` (global id) of ``part`` runs again before its backward."""
        if self.recomputed_ids is not None:
            return layer in self.recomputed_ids
        if self.recompute.kind == "none":
            return False
        return layer - self.first_layer(part) < (self.part_recomputed or self.recompute.layers)[part]

    @property
    def head_stage(self) -> int:
        """The stage with the output layer, of the first copy of the model. The embedding lies on stage 0."""
        return self.placement.stage(self.depth - 1)

    def has_embedding(self, stage: int) -> bool:
        return any(part % self.depth == 0 for part in self.placement.on_stage(stage))

    def has_head(self, stage: int) -> bool:
        return any(part % self.depth == self.depth - 1 for part in self.placement.on_stage(stage))

    @cached_property
    def slots(self) -> tuple[tuple[Slot, ...], ...]:
        """Passes of every stage in issue order, those that run as one together."""
        return slots(self.schedule, self.pp, self.microbatches, self.placement.chunks)

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """Passes of every stage in issue order."""
        return orders(self.schedule, self.pp, self.microbatches, self.placement.chunks)

    @cached_property
    def together(self) -> frozenset[Pass]:
        """Passes that share their slot with others."""
        return frozenset(one for stage in self.slots for slot in stage if len(slot) > 1 for one in slot)

    def in_flight(self, stage: int) -> float:
        """Micro-batches whose activations ``stage`` holds at once (docs/models.md).

        A part counts by its share of the stage's layers. Activations live until the last backward pass,
        weight gradients included: those need the inputs and the output gradients of all linear layers.
        """
        if self.schedule == "gpipe":
            return self.microbatches
        if self.schedule == "1f1b":
            return min(self.microbatches, self.pp - stage)
        held = max(self.stage_layers[stage], 1)
        return held_at_most(self.orders[stage], [self.layers_of_part(p) / held for p in range(self.parts)])

    @property
    def head_in_flight(self) -> int:
        """Micro-batches whose output layer and loss wait for their backward at once.

        The output layer's weight gradient is never put off: no schedule keeps the gradient of many logits.
        """
        whole = [one for one in self.orders[self.head_stage] if one.kind != WEIGHT]
        last = self.depth - 1
        return round(held_at_most(whole, [1.0 if part == last else 0.0 for part in range(self.parts)]))
