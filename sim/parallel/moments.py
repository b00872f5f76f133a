"""Moments of the step that can be the peak: what is alive in each besides the lasting buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sim.parallel.activations import LayerActivations, Slice, micro_batch_bytes
from sim.parallel.layout import Layout
from sim.parallel.memory_facts import MemoryFacts, MemoryRequest
from sim.parallel.states import StageParameters, gathered_bytes, reduction_bytes, shard_degree
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
    layer: LayerActivations
    parameters: StageParameters

    @property
    def in_flight(self) -> int:
        return self.layout.in_flight(self.stage)

    @property
    def micro_batch_bytes(self) -> float:
        return micro_batch_bytes(self.layer, self.layout, self.stage)

    @property
    def layers(self) -> int:
        return self.layout.stage_layers[self.stage]

    @property
    def recomputed(self) -> int:
        return self.layout.recompute.layers[self.stage] if self.layout.recompute.kind != "none" else 0

    @property
    def saved_bytes(self) -> float:
        """Kept by all micro-batches in flight: layers, and on the first stage the embedding's dropout mask."""
        return self.in_flight * (self.micro_batch_bytes + self.embedding_mask_bytes)

    @property
    def embedding_mask_bytes(self) -> float:
        if self.stage or self.request.dropout == 0.0:
            return 0.0
        return self.part.hidden_bytes / self.part.element_bytes


def moments(context: StageContext) -> Iterator[Moment]:
    """Every candidate of one stage (the list of candidates in docs/models.md); the largest is the peak."""
    if context.stage == context.layout.pp - 1:
        yield output_layer_backward(context)
    yield from layer_backward(context)
    if context.stage == 0 and not context.request.frozen:
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
    waiting = (context.in_flight - 1) * (final_norm + min(per_logit, 4.0) * logits)
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
    plain = context.layers - (context.recomputed if full else 0)
    if plain:
        yield from _inside_layer(context, "", context.saved_bytes, 0.0)
    if full and context.recomputed:
        freed = plain * context.layer.whole
        working_set = context.layer.whole - context.layer.recomputed
        yield from _inside_layer(context, "recomputed ", context.saved_bytes - freed, working_set)


def _inside_layer(context: StageContext, kind: str, alive: float, working_set: float) -> Iterator[Moment]:
    gathered = gathered_bytes(context.parameters, context.layout, context.request)
    reduction = reduction_bytes(context.parameters, context.layout, context.request)
    hidden = context.part.hidden_bytes
    row = context.part.element_bytes * context.part.tokens / context.layout.tp
    # The gradient of the activation has taken the place of the activation itself: only its input's counts.
    mlp = hidden + row * context.architecture.ffn_in_width
    where = f"backward of the last {kind}layer"
    yield Moment(
        f"{kind}MLP backward", f"{where}, MLP, micro-batch 1", alive, working_set + mlp, gathered, reduction
    )
    if context.request.attention == "unfused":
        scores = 2.0 * context.part.element_bytes * context.part.score_elements  # of probabilities and scores
        selective = context.layout.recompute.kind == "selective" and context.recomputed == context.layers
        rebuilt = context.layer.core if selective else 0.0
        attention = max(working_set + rebuilt + hidden + scores - context.layer.mlp, 0.0)
        yield Moment(
            f"{kind}attention backward",
            f"{where}, attention, micro-batch 1",
            alive,
            attention,
            gathered,
            reduction,
        )


def embedding_backward(context: StageContext) -> Moment:
    """First stage: this micro-batch is done, its table gradient is a 16-bit tensor of its own: 2·V'·h/t.

    Under FSDP that gradient is part of the root unit's reduction.
    """
    table = context.request.element_bytes * context.vocab * context.architecture.hidden / context.layout.tp
    fsdp = context.layout.data_sharding == "fsdp"
    return Moment(
        name="embedding backward",
        when="backward of the embedding, micro-batch 1",
        activations_bytes=context.saved_bytes - context.micro_batch_bytes,
        transient_bytes=0.0 if fsdp else table,
        gathered_bytes=gathered_bytes(context.parameters, context.layout, context.request),
        reduction_bytes=reduction_bytes(context.parameters, context.layout, context.request),
    )


def optimizer_step(context: StageContext) -> Moment:
    """No activations; 16-bit gradients are cast to fp32 for the shard that this rank updates."""
    layout, request = context.layout, context.request
    trained = context.parameters.adapters if request.frozen else context.parameters.total
    shard = trained / (1 if layout.data_sharding == "ddp" else shard_degree(layout))
    return Moment(
        name="optimizer step",
        when="optimizer step",
        activations_bytes=0.0,
        transient_bytes=4.0 * shard if request.gradient_bytes < 4.0 else 0.0,
    )
