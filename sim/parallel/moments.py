"""Moments of the step that can be the peak: what is alive in each besides the lasting buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

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
    """A candidate for the peak. All bytes of one rank; ``when`` says it in words.

    ``activations_bytes`` count from what was held when the task began that the moment lies in.
    """

    name: str
    when: str
    activations_bytes: float
    transient_bytes: float
    gathered_bytes: float = 0.0
    reduction_bytes: float = 0.0

    def above(self, held_bytes: float) -> Moment:
        """The same with ``held_bytes`` held before."""
        return replace(self, activations_bytes=self.activations_bytes + held_bytes)

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

    def kept(self, held: HeldLayer) -> float:
        """Activations that one micro-batch in flight holds in a layer; on the host they pass through buffers."""
        if held.offloaded:
            return 0.0
        layer = self.layers[held.routed]
        return layer.recomputed if held.recomputed else layer.whole

    def runs_again(self, held: HeldLayer) -> bool:
        """Whether a backward pass starts with the layer's forward, or with modules of it."""
        asked = self.layout.recompute
        if not held.recomputed or asked.kind == "none":
            return False
        return asked.kind != "selective" or self.layers[held.routed].rebuilt > 0.0

    def routes_again(self, held: HeldLayer) -> bool:
        """Whether its tokens go to the experts once more."""
        asked = self.layout.recompute
        return self.runs_again(held) and (asked.kind != "selective" or "moe" in asked.modules)

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
    def embedding_mask_bytes(self) -> float:
        if not self.layout.has_embedding(self.stage) or self.request.dropout == 0.0:
            return 0.0
        return self.part.hidden_bytes / self.part.element_bytes


def output_layer_backward(context: StageContext) -> Moment:
    """Last stage: final norm, logits with their gradient, and the gradient of the layer's input.

    2H + c·S·V'/t + Hf, + H if the gradient is then scattered over tp (sequence parallelism),
    + H if the stage's input gradient is retained for the pipeline. What this micro-batch waited with is
    among it.
    """
    part, request = context.part, context.request
    hidden = part.hidden_bytes
    final_norm = hidden if request.frozen else 2.0 * hidden  # a frozen output layer keeps no input
    logits = part.tokens * context.vocab / context.layout.tp
    transient = final_norm + request.logit_bytes(context.facts) * logits + part.gathered_hidden_bytes
    if part.sequence_shards > 1:
        transient += hidden
    if context.layout.pp > 1:
        transient += hidden
    return Moment(
        name="output layer backward",
        when="backward of the output layer",
        activations_bytes=-waiting_bytes(context),
        transient_bytes=transient,
        gathered_bytes=gathered_bytes(context.parameters, context.layout, request),
        reduction_bytes=reduction_bytes(context.parameters, context.layout, request),
    )


def waiting_bytes(context: StageContext) -> float:
    """What one micro-batch keeps from the output layer's forward to its backward: final norm and softmax.

    At most 4 bytes per logit. GPipe keeps that of all its micro-batches.
    """
    part, request = context.part, context.request
    final_norm = part.hidden_bytes * (1.0 if request.frozen else 2.0)
    logits = part.tokens * context.vocab / context.layout.tp
    return final_norm + min(request.logit_bytes(context.facts), 4.0) * logits


def layer_backward(context: StageContext, held: HeldLayer, name: str) -> Iterator[Moment]:
    """Backward inside a layer, with its working set where that was made again."""
    layer = context.layers[held.routed]
    kind, working_set = _again(context, held)
    gathered = gathered_bytes(context.parameters, context.layout, context.request)
    reduction = reduction_bytes(context.parameters, context.layout, context.request)
    hidden = context.part.hidden_bytes
    row = context.part.element_bytes * context.part.tokens / context.layout.tp
    # The gradient of the activation has taken the place of the activation itself: only its input's counts.
    mlp = hidden + row * context.architecture.ffn_in_width
    if held.routed:
        if context.routes_again(held):
            yield dispatch(context, held, name)
        mlp = hidden + _routed_gradients(context)
    where = f"backward of {kind}{name}"
    yield Moment(f"{kind}MLP backward", f"{where}, MLP", 0.0, working_set + mlp, gathered, reduction)
    unfused = context.request.attention == "unfused"
    if unfused or context.attention_buffers_bytes:
        # Gradients of probabilities and scores; parts of other ranks and partial gradients.
        scores = 2.0 * context.part.element_bytes * context.part.score_elements if unfused else 0.0
        scores += context.attention_buffers_bytes
        asked = context.layout.recompute
        selective = asked.kind == "selective" and context.recomputed == len(context.held)
        selective &= "core_attn" in asked.modules
        rebuilt = layer.core if selective and unfused else 0.0
        attention = max(working_set + rebuilt + hidden + scores - layer.mlp, 0.0)
        yield Moment(f"{kind}attention backward", f"{where}, attention", 0.0, attention, gathered, reduction)


def dispatch(context: StageContext, held: HeldLayer, name: str) -> Moment:
    """End of a routed layer's forward pass: four copies of its rows are alive at once.

    Permuted, received, sorted by expert, combined: all are still referenced. Beside them two hidden
    states, and on a pipeline what arrived (first stage: none) and what leaves. A compiler that frees a
    buffer after its last use needs fewer copies (``dispatch_copies``).
    """
    hidden, layout = context.part.hidden_bytes, context.layout
    kind, working_set = _again(context, held)
    beside = 2.0 * hidden
    if layout.pp > 1:
        beside += hidden if layout.has_embedding(context.stage) else 2.0 * hidden
    copies = context.facts.dispatch_copies * context.routed_copies_bytes
    return Moment(
        name=f"{kind}token dispatch",
        when=f"forward end of {kind}{name}, experts{_fullest(context)}",
        activations_bytes=0.0,
        transient_bytes=working_set + copies + beside,
        gathered_bytes=gathered_bytes(context.parameters, layout, context.request),
    )


def _fullest(context: StageContext) -> str:
    """Under an uneven load the figures are those of the rank with most rows, which none is by its number."""
    return " of the fullest rank" if context.request.routing.balance_factor > 1.0 else ""


def _again(context: StageContext, held: HeldLayer) -> tuple[str, float]:
    """Words and working set of a layer that is recomputed."""
    if not context.runs_again(held):
        return "", 0.0
    layer = context.layers[held.routed]
    return "recomputed ", layer.rebuilt


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
        when="backward of the embedding",
        activations_bytes=0.0,
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
