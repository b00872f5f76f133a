"""Model states of one rank: parameters, gradients, optimizer, and what sharding makes of them."""

from __future__ import annotations

from dataclasses import dataclass

from sim.parallel.held_layers import held_layers
from sim.parallel.layout import Layout
from sim.parallel.memory_facts import MemoryFacts, MemoryRequest
from sim.workload.architecture import Architecture, LayerKind
from sim.workload.workload import Linear, Workload


def padded_vocabulary(vocab: int, tp: int, multiple: int, extra_tokens: int = 0) -> int:
    """Rows of the embedding table: ``vocab + extra_tokens`` rounded up to ``multiple * tp``."""
    unit = multiple * tp
    return -(-(vocab + extra_tokens) // unit) * unit


@dataclass(frozen=True)
class StageParameters:
    """Parameters that one rank of a stage computes with, before data-parallel sharding.

    Tensor parallelism splits the linear layers, their column biases, the embedding and the output
    layer; norms, row biases and learned positions are whole on every rank.
    """

    layer: float  # the largest one, experts of this rank included
    linear: float  # weights of the linear layers of all blocks, routed experts aside
    layers: int
    blocks: float  # all of them, experts of this rank included
    experts: float  # the part of ``blocks`` that is routed experts
    embedding: float  # first stage: token table and learned positions
    head: float  # last stage: output layer (zero when tied to an embedding of the same stage)
    final_norm: float  # last stage
    adapters: float  # LoRA, all layers of the stage

    @property
    def root(self) -> float:
        """What FSDP keeps in the unit around the blocks."""
        return self.embedding + self.head + self.final_norm

    @property
    def total(self) -> float:
        """Base model without adapters."""
        return self.blocks + self.root

    def spread(self, degree: int, expert_degree: int) -> float:
        """``total`` with shared parameters over ``degree`` ranks, experts over ``expert_degree``."""
        return (self.total - self.experts) / degree + self.experts / expert_degree


def stage_parameters(
    architecture: Architecture, layout: Layout, request: MemoryRequest, stage: int, vocab: int
) -> StageParameters:
    """Parameters of one rank of ``stage``; ``vocab`` is padded already.

    A tied model with several stages holds a second copy of the table on its last stage.
    """
    first, last = layout.has_embedding(stage), layout.has_head(stage)
    table = vocab * architecture.hidden / layout.tp
    learned = architecture.max_positions * architecture.hidden if architecture.position == "learned" else 0
    own_head = not architecture.tied_embeddings or layout.head_stage > 0
    held = held_layers(architecture, layout, stage)
    layers = len(held)
    routed = sum(layer.routed for layer in held)
    block = layer_parameters(architecture, layout.tp)
    with_experts = layer_parameters(architecture, layout.tp, routed=architecture.experts is not None)
    experts = rank_experts(architecture, layout)
    further = architecture.mtp_layers if last else 0
    projection = 2.0 * architecture.hidden**2 / layout.tp + 3.0 * architecture.norm_parameters
    return StageParameters(
        layer=with_experts + experts if routed else block,
        linear=_linear_weights(architecture, layout.tp, layers, routed),
        layers=layers,
        blocks=block * (layers - routed) + (with_experts + experts) * routed + further * projection,
        experts=experts * routed,
        embedding=table + learned if first else 0.0,
        head=table if last and own_head else 0.0,
        final_norm=float(architecture.norm_parameters) if last else 0.0,
        adapters=layers * adapter_parameters(architecture, request, layout.tp),
    )


def rank_experts(architecture: Architecture, layout: Layout) -> float:
    """Parameters of the routed experts of one layer on one rank."""
    if architecture.experts is None:
        return 0.0
    return architecture.experts.count / layout.ep * architecture.expert_parameters / layout.experts_tp


def _linear_weights(architecture: Architecture, tp: int, layers: int, routed: int) -> float:
    if architecture.experts is None:
        return architecture.layer_linear_parameters / tp * layers
    replicated = architecture.routed_layer_replicated - architecture.attention_extras
    return (architecture.layer_linear_parameters * (layers - routed) + replicated * routed) / tp


def layer_parameters(architecture: Architecture, tp: int, *, routed: bool = False) -> float:
    """Parameters of one block on one rank: linear weights / tp, norms whole (findings: 2h for RMSNorm).

    Without its routed experts; the router and projections to latents are whole on every rank.
    """
    if architecture.latent is not None or (routed and architecture.experts is not None):
        return _special_layer_parameters(architecture, tp, routed=routed)
    whole = 2.0 * architecture.norm_parameters
    split = float(architecture.layer_linear_parameters)
    if architecture.qkv_bias:
        split += architecture.q_width + 2 * architecture.kv_width
    if architecture.linear_bias:
        split += architecture.ffn_in_width
        whole += 2.0 * architecture.hidden
    return split / tp + whole


def _special_layer_parameters(architecture: Architecture, tp: int, *, routed: bool) -> float:
    total = float(architecture.routed_layer_replicated if routed else architecture.layer_parameters)
    linears = _workload(architecture).layer_linears(LayerKind(routed))
    split = float(sum(x.inputs * x.outputs for x in linears if x.shard != "sequence"))
    return split / tp + (total - split)


def _workload(architecture: Architecture) -> Workload:
    """The shapes of its linear layers; length and format do not matter to them."""
    return Workload(architecture, sequence_length=1, precision="bf16")


def adapter_parameters(architecture: Architecture, request: MemoryRequest, tp: int) -> float:
    """LoRA parameters of one block on one rank: rank·(in + out), the split side divided by tp."""
    widths = {
        "qkv": architecture.hidden + (architecture.q_width + 2 * architecture.kv_width) / tp,
        "proj": architecture.q_width / tp + architecture.hidden,
    }
    return request.lora_rank * sum(widths[target] for target in set(request.lora_targets))


def shard_degree(layout: Layout) -> int:
    """Ranks that share one optimizer or FSDP shard: data *and* context parallel."""
    return layout.shard_ranks


def expert_shard_degree(layout: Layout) -> int:
    """The same for routed experts: ranks that hold the same ones."""
    return max(1, layout.expert_dp * layout.placement.copies // layout.hsdp_replicas)


def state_bytes(
    parameters: StageParameters, layout: Layout, request: MemoryRequest, facts: MemoryFacts
) -> dict[str, float]:
    """Bytes of parameters, gradients and optimizer that stay for the whole step.

    ddp: nothing divided; zero-1: the optimizer is; zero-2: gradients too; fsdp: all three are, over dp·cp
    (hsdp: over the part of them that one copy of the model is spread over). Gradients that are reduced at
    the last micro-batch only are whole until then. A frozen base
    keeps its parameters only (8-bit linear weights: one byte each).
    """
    degrees = shard_degree(layout), expert_shard_degree(layout)
    linear = parameters.linear
    held = request.linear_bytes * linear
    held += request.parameter_bytes * (parameters.total - parameters.experts - linear + parameters.adapters)
    everything = degrees if layout.data_sharding == "fsdp" else (1, 1)
    gradient_degrees = degrees if layout.shards_gradients else (1, 1)
    optimizer_degrees = (1, 1) if layout.data_sharding == "ddp" else degrees
    experts = request.linear_bytes * parameters.experts / everything[1]
    held_by_optimizer = request.optimizer_bytes(facts) * trained(parameters, request, *optimizer_degrees)
    return {
        "parameters": held / everything[0] + experts,
        "gradients": request.gradient_bytes * trained(parameters, request, *gradient_degrees),
        "optimizer": 0.0 if request.optimizer_on_host else held_by_optimizer,
    }


def trained(parameters: StageParameters, request: MemoryRequest, degree: int, expert_degree: int) -> float:
    """Trainable parameters of one rank's shard."""
    if request.frozen:
        return parameters.adapters / degree
    return parameters.spread(degree, expert_degree)


def gathered_bytes(parameters: StageParameters, layout: Layout, request: MemoryRequest) -> float:
    """FSDP: whole units in the computing format. Blocks in use and prefetched, and the root unit.

    Without resharding every block stays gathered from its forward to its backward, and beside a pipeline
    to the end of the step: the whole stage.
    """
    if layout.data_sharding != "fsdp":
        return 0.0
    blocks = min(1 + request.prefetch, parameters.layers) if request.reshard else parameters.layers
    return request.element_bytes * (blocks * parameters.layer + parameters.root)


def reduction_bytes(parameters: StageParameters, layout: Layout, request: MemoryRequest) -> float:
    """FSDP, ZeRO-2: unsharded gradients on their way: one block's reduce-scatter input and the root unit's.

    Under ZeRO-2 a bucket of several blocks is such a unit.

    A block reduces in the gradient's format; the root's gradient is in the computing format.
    """
    if not layout.reduces_by_unit:
        return 0.0
    if request.frozen:
        return request.gradient_bytes * parameters.adapters / max(parameters.layers, 1)
    block = parameters.layer if parameters.layers else 0.0
    if layout.data_sharding == "zero-2" and request.bucket_parameters is not None:
        block = max(block, min(request.bucket_parameters, parameters.blocks))
    return request.gradient_bytes * block + request.element_bytes * parameters.root


def weight_gradient_buffer_bytes(
    architecture: Architecture,
    layout: Layout,
    request: MemoryRequest,
    facts: MemoryFacts,
    stage: int,
    vocab: int,
) -> float:
    """Dummy gradients that fused accumulation keeps: one per *distinct* weight shape of the stage.

    Not where gradients are sharded (the hooks need the real gradient) and not for a frozen base.
    """
    if not facts.fused_gradient_accumulation or layout.reduces_by_unit or request.frozen:
        return 0.0
    workload = _workload(architecture)
    shapes: set[tuple[float, float]] = set()
    for routed in {layer.routed for layer in held_layers(architecture, layout, stage)}:
        shapes |= _weight_shapes(workload.layer_linears(LayerKind(routed)), layout.tp)
        shapes |= _weight_shapes(workload.expert_linears if routed else (), layout.experts_tp)
    if layout.has_head(stage):
        shapes.add((vocab / layout.tp, architecture.hidden))
    return request.element_bytes * sum(rows * columns for rows, columns in shapes)


def _weight_shapes(linears: tuple[Linear, ...], tp: int) -> set[tuple[float, float]]:
    """(outputs, inputs) of one rank's part of each weight."""
    return {
        (x.outputs / (tp if x.shard == "column" else 1), x.inputs / (tp if x.shard == "row" else 1))
        for x in linears
    }
