"""Moments of the step that can be the peak: what is alive in each besides the lasting buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from sim.parallel.activations import LayerActivations, Slice, routed_rows
from sim.parallel.attention_buffers import accumulator_bytes, exchange_bytes
from sim.parallel.held_layers import HeldLayer
from sim.parallel.layout import Layout
from sim.parallel.memory_facts import MemoryFacts, MemoryRequest
from sim.parallel.states import (
    StageParameters,
    expert_shard_degree,
    gathered_bytes,
    reduction_bytes,
    shard_degree,
    trained,
)
from sim.workload.architecture import Architecture


@dataclass(frozen=True)
class Moment:
    """A candidate for the peak. All bytes of one rank; ``when`` says it in words."""

    name: str
    when: str
    activations_bytes: float
    transient_bytes: float
    gathered_bytes: float = 0.0
    reduction_bytes: float = 0.0

    @property
    def total_bytes(self) -> float:
        return self.activations_bytes + self.transient_bytes + self.gathered_bytes + self.reduction_bytes


@dataclass(frozen=True)
class StageContext:
    """Everything that the moments of one stage are computed from. ``vocab`` is padded."""

    architecture: Architecture
    layout: Layout
    request: MemoryRequest
    facts: MemoryFacts
    stage: int
    vocab: int
    part: Slice
    layers: Mapping[bool, LayerActivations]  # by whether a layer is routed
    held: tuple[HeldLayer, ...]
    parameters: StageParameters

    @property
    def in_flight(self) -> float:
        return self.layout.in_flight(self.stage)

    @property
    def micro_batch_bytes(self) -> float:
        """Activations that one micro-batch in flight holds in the layers of the stage."""
        return sum(self.count(h) * self.kept(h) for h in dict.fromkeys(self.held))

    def count(self, like: HeldLayer) -> int:
        return self.held.count(like)

    def kept(self, held: HeldLayer) -> float:
        layer = self.layers[held.routed]
        return layer.recomputed if held.recomputed else layer.whole

    @property
    def recomputed(self) -> int:
        return sum(held.recomputed for held in self.held)

    @property
    def routed_copies_bytes(self) -> float:
        """One copy of the rows that a routed layer of one micro-batch works on."""
        rows = routed_rows(self.architecture, self.layout, self.request)
        return self.part.element_bytes * rows * self.architecture.hidden

    @property
    def attention_buffers_bytes(self) -> float:
        """What attention's backward pass needs beside what is kept and the gradient that it starts from."""
        own = (self.architecture, self.layout, self.request)
        return exchange_bytes(*own) + accumulator_bytes(*own, self.facts)

    @property
    def saved_bytes(self) -> float:
        """Kept by all micro-batches in flight: layers, and on the first stage the embedding's dropout mask."""
        return self.in_flight * (self.micro_batch_bytes + self.embedding_mask_bytes)

    @property
    def embedding_mask_bytes(self) -> float:
        if not self.layout.has_embedding(self.stage) or self.request.dropout == 0.0:
            return 0.0
        return self.part.hidden_bytes / self.part.element_bytes


def moments(context: StageContext) -> Iterator[Moment]:
    """Every candidate of one stage (the list of candidates in docs/models.md); the largest is the peak."""
    if context.layout.has_head(context.stage):
        yield output_layer_backward(context)
    yield from layer_backward(context)
    if context.layout.has_embedding(context.stage) and not context.request.frozen:
        yield embedding_backward(context)
    yield optimizer_step(context)


def output_layer_backward(context: StageContext) -> Moment:
    """Last stage: final norm, logits with their gradient, and the gradient of the layer's input.

    2H + c·S·V'/t + Hf, + H if the gradient is then scattered over tp (sequence parallelism),
    + H if the stage's input gradient is retained for the pipeline. GPipe's other micro-batches keep
    their softmax (at most 4 bytes per logit) and final norm too.
    """
    part, request = context.part, context.request
    hidden = part.hidden_bytes
    final_norm = hidden if request.frozen else 2.0 * hidden  # a frozen output layer keeps no input
    logits = part.tokens * context.vocab / context.layout.tp
    per_logit = request.logit_bytes(context.facts)
    transient = final_norm + per_logit * logits + part.gathered_hidden_bytes
    if part.sequence_shards > 1:
        transient += hidden
    if context.layout.pp > 1:
        transient += hidden
    waiting = (context.layout.head_in_flight - 1) * (final_norm + min(per_logit, 4.0) * logits)
    return Moment(
        name="output layer backward",
        when="backward of the output layer, micro-batch 1",
        activations_bytes=context.saved_bytes + waiting,
        transient_bytes=transient,
        gathered_bytes=gathered_bytes(context.parameters, context.layout, request),
        reduction_bytes=reduction_bytes(context.parameters, context.layout, request),
    )


def layer_backward(context: StageContext) -> Iterator[Moment]:
    """Backward inside the last layer, and inside the last recomputed one with its working set.

    When the latter runs, the layers after it are done: their activations of this micro-batch are free.
    """
    full = context.layout.recompute.kind in ("full", "operator")
    plain = [held for held in context.held if not (full and held.recomputed)]
    again = [held for held in context.held if full and held.recomputed]
    if plain:
        yield from _inside_layer(context, plain[-1], "", context.saved_bytes, 0.0)
    if again:
        done = _after_last_recomputed(context.held)
        freed = sum(done.count(h) * context.layers[h.routed].whole for h in dict.fromkeys(done))
        layer = context.layers[again[-1].routed]
        working_set = layer.whole - layer.recomputed
        yield from _inside_layer(context, again[-1], "recomputed ", context.saved_bytes - freed, working_set)


def _after_last_recomputed(held: tuple[HeldLayer, ...]) -> tuple[HeldLayer, ...]:
    backwards = [layer.recomputed for layer in reversed(held)]
    return held[len(held) - backwards.index(True) :]


def _inside_layer(
    context: StageContext, held: HeldLayer, kind: str, alive: float, working_set: float
) -> Iterator[Moment]:
    layer = context.layers[held.routed]
    gathered = gathered_bytes(context.parameters, context.layout, context.request)
    reduction = reduction_bytes(context.parameters, context.layout, context.request)
    hidden = context.part.hidden_bytes
    row = context.part.element_bytes * context.part.tokens / context.layout.tp
    # The gradient of the activation has taken the place of the activation itself: only its input's counts.
    mlp = hidden + row * context.architecture.ffn_in_width
    if held.routed:
        yield _dispatch(context, kind, alive, working_set)
        mlp = hidden + _routed_gradients(context)
    where = f"backward of the last {kind}layer"
    yield Moment(
        f"{kind}MLP backward", f"{where}, MLP, micro-batch 1", alive, working_set + mlp, gathered, reduction
    )
    unfused = context.request.attention == "unfused"
    if unfused or context.attention_buffers_bytes:
        # Gradients of probabilities and scores; parts of other ranks and partial gradients.
        scores = 2.0 * context.part.element_bytes * context.part.score_elements if unfused else 0.0
        scores += context.attention_buffers_bytes
        selective = context.layout.recompute.kind == "selective" and context.recomputed == len(context.held)
        rebuilt = layer.core if selective and unfused else 0.0
        attention = max(working_set + rebuilt + hidden + scores - layer.mlp, 0.0)
        yield Moment(
            f"{kind}attention backward",
            f"{where}, attention, micro-batch 1",
            alive,
            attention,
            gathered,
            reduction,
        )


def _dispatch(context: StageContext, kind: str, alive: float, working_set: float) -> Moment:
    """End of a routed layer's forward pass: four copies of its rows are alive at once.

    Permuted, received, sorted by expert, combined: all are still referenced. Beside them two hidden
    states, and on a pipeline what arrived (first stage: none) and what leaves. A compiler that frees a
    buffer after its last use needs fewer copies (``dispatch_copies``).
    """
    hidden, layout = context.part.hidden_bytes, context.layout
    beside = 2.0 * hidden
    if layout.pp > 1:
        beside += hidden if layout.has_embedding(context.stage) else 2.0 * hidden
    gathered = gathered_bytes(context.parameters, layout, context.request)
    return Moment(
        name=f"{kind}token dispatch",
        when=f"forward end of the last {kind}layer with experts, micro-batch {ceil(context.in_flight)}",
        activations_bytes=alive,
        transient_bytes=working_set + context.facts.dispatch_copies * context.routed_copies_bytes + beside,
        gathered_bytes=gathered,
    )


def _routed_gradients(context: StageContext) -> float:
    """Gradients of the rows and of what their experts' first product gave."""
    a, experts = context.architecture, context.architecture.experts
    if experts is None:
        return 0.0
    inner = (2 if a.mlp == "swiglu" else 1) * experts.ffn / context.layout.experts_tp
    return context.routed_copies_bytes * (1.0 + inner / a.hidden)


def embedding_backward(context: StageContext) -> Moment:
    """First stage: this micro-batch is done, its table gradient is a 16-bit tensor of its own: 2·V'·h/t.

    Where gradients are sharded it is part of the root unit's reduction.
    """
    table = context.request.element_bytes * context.vocab * context.architecture.hidden / context.layout.tp
    sharded = context.layout.reduces_by_unit
    return Moment(
        name="embedding backward",
        when="backward of the embedding, micro-batch 1",
        activations_bytes=context.saved_bytes - context.micro_batch_bytes,
        transient_bytes=0.0 if sharded else table,
        gathered_bytes=gathered_bytes(context.parameters, context.layout, context.request),
        reduction_bytes=reduction_bytes(context.parameters, context.layout, context.request),
    )


def optimizer_step(context: StageContext) -> Moment:
    """No activations; 16-bit gradients are cast to fp32 for the shard that this rank updates."""
    layout, request = context.layout, context.request
    degrees = shard_degree(layout), expert_shard_degree(layout)
    shard = trained(context.parameters, request, *((1, 1) if layout.data_sharding == "ddp" else degrees))
    return Moment(
        name="optimizer step",
        when="optimizer step",
        activations_bytes=0.0,
        transient_bytes=4.0 * shard if request.gradient_bytes < 4.0 else 0.0,
    )
