"""Model states of one rank: parameters, gradients, optimizer, and what sharding makes of them."""

from __future__ import annotations

from dataclasses import dataclass

from sim.parallel.layout import Layout
from sim.parallel.memory_facts import MemoryFacts, MemoryRequest
from sim.workload.architecture import Architecture


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

    layer: float
    linear: float  # the part of ``layer`` that is weights of linear layers
    layers: int
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
        return self.layer * self.layers + self.root


def stage_parameters(
    architecture: Architecture, layout: Layout, request: MemoryRequest, stage: int, vocab: int
) -> StageParameters:
    """Parameters of one rank of ``stage``; ``vocab`` is padded already.

    A tied model with several stages holds a second copy of the table on its last stage.
    """
    first, last = stage == 0, stage == layout.pp - 1
    table = vocab * architecture.hidden / layout.tp
    learned = architecture.max_positions * architecture.hidden if architecture.position == "learned" else 0
    own_head = not architecture.tied_embeddings or layout.pp > 1
    layers = layout.stage_layers[stage]
    return StageParameters(
        layer=layer_parameters(architecture, layout.tp),
        linear=architecture.layer_linear_parameters / layout.tp,
        layers=layers,
        embedding=table + learned if first else 0.0,
        head=table if last and own_head else 0.0,
        final_norm=float(architecture.norm_parameters) if last else 0.0,
        adapters=layers * adapter_parameters(architecture, request, layout.tp),
    )


def layer_parameters(architecture: Architecture, tp: int) -> float:
    """Parameters of one block on one rank: linear weights / tp, norms whole (findings: 2h for RMSNorm)."""
    whole = 2.0 * architecture.norm_parameters
    split = float(architecture.layer_linear_parameters)
    if architecture.qkv_bias:
        split += architecture.q_width + 2 * architecture.kv_width
    if architecture.linear_bias:
        split += architecture.ffn_in_width
        whole += 2.0 * architecture.hidden
    return split / tp + whole


def adapter_parameters(architecture: Architecture, request: MemoryRequest, tp: int) -> float:
    """LoRA parameters of one block on one rank: rank·(in + out), the split side divided by tp."""
    widths = {
        "qkv": architecture.hidden + (architecture.q_width + 2 * architecture.kv_width) / tp,
        "proj": architecture.q_width / tp + architecture.hidden,
    }
    return request.lora_rank * sum(widths[target] for target in set(request.lora_targets))


def shard_degree(layout: Layout) -> int:
    """Ranks that share one optimizer or FSDP shard: data *and* context parallel."""
    return layout.dp * layout.cp


def state_bytes(
    parameters: StageParameters, layout: Layout, request: MemoryRequest, facts: MemoryFacts
) -> dict[str, float]:
    """Bytes of parameters, gradients and optimizer that stay for the whole step.

    ddp: nothing divided; zero-1: the optimizer is; fsdp: all three are, over dp·cp. A frozen base
    keeps its parameters only (8-bit linear weights: one byte each).
    """
    degree = shard_degree(layout)
    trained = parameters.adapters if request.frozen else parameters.total
    linear = parameters.linear * parameters.layers
    held = request.linear_bytes * linear
    held += request.parameter_bytes * (parameters.total - linear + parameters.adapters)
    everything = degree if layout.data_sharding == "fsdp" else 1
    optimizer_degree = 1 if layout.data_sharding == "ddp" else degree
    return {
        "parameters": held / everything,
        "gradients": request.gradient_bytes * trained / everything,
        "optimizer": request.optimizer_bytes(facts) * trained / optimizer_degree,
    }


def gathered_bytes(parameters: StageParameters, layout: Layout, request: MemoryRequest) -> float:
    """FSDP: whole units in the computing format. Blocks in use and prefetched, and the root unit.

    Without resharding every block stays gathered from its forward to its backward: the whole stage.
    """
    if layout.data_sharding != "fsdp":
        return 0.0
    blocks = min(1 + request.prefetch, parameters.layers) if request.reshard else parameters.layers
    return request.element_bytes * (blocks * parameters.layer + parameters.root)


def reduction_bytes(parameters: StageParameters, layout: Layout, request: MemoryRequest) -> float:
    """FSDP: unsharded gradients on their way: one block's reduce-scatter input and the root unit's.

    A block reduces in the gradient's format; the root's gradient is in the computing format.
    """
    if layout.data_sharding != "fsdp":
        return 0.0
    if request.frozen:
        return request.gradient_bytes * parameters.adapters / max(parameters.layers, 1)
    block = parameters.layer if parameters.layers else 0.0
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

    Not under FSDP (its hooks need the real gradient) and not for a frozen base.
    """
    if not facts.fused_gradient_accumulation or layout.data_sharding == "fsdp" or request.frozen:
        return 0.0
    h, q, kv, tp = architecture.hidden, architecture.q_width, architecture.kv_width, layout.tp
    shapes: set[tuple[float, float]] = set()
    if layout.stage_layers[stage]:
        shapes |= {
            ((q + 2 * kv) / tp, h),
            (h, q / tp),
            (architecture.ffn_in_width / tp, h),
            (h, architecture.ffn / tp),
        }
    if stage == layout.pp - 1:
        shapes.add((vocab / tp, h))
    return request.element_bytes * sum(rows * columns for rows, columns in shapes)
