"""Activations that one rank keeps from a layer's forward until its backward."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sim.parallel.layout import Layout
from sim.parallel.memory_facts import MemoryFacts, MemoryRequest
from sim.workload.architecture import Architecture

MLP_OPS = (
    "norm 2 input",
    "norm 2 output",
    "mlp input projection",
    "mlp activation",
    "mlp dropout mask",
    "expert rows",
    "expert input projection",
    "expert activation",
    "router",
)


MODULE_OPS = {
    "layernorm": ("norm 1 output", "norm 2 output"),
    "mla_up_proj": ("q, k, v",),
    "mlp": ("mlp input projection", "mlp activation"),
    "moe": (
        "mlp input projection",
        "mlp activation",
        "expert rows",
        "expert input projection",
        "expert activation",
        "router",
    ),
    "moe_act": ("expert activation",),
}
"""What selective recomputation of a module drops, ``core_attn`` aside; ``mlp`` of dense layers, ``moe`` of routed."""


@dataclass(frozen=True)
class Slice:
    """One rank's share of one micro-batch.

    ``tokens`` = b·s/cp. ``hidden_bytes`` (H) is one hidden state as the rank keeps it: divided by tp
    with sequence parallelism. ``gathered_hidden_bytes`` (Hf) is the whole one. ``score_elements`` are
    the entries of the attention matrix of the rank's heads: a·tokens·s/tp.
    """

    tokens: float
    element_bytes: float
    hidden_bytes: float
    gathered_hidden_bytes: float
    score_elements: float
    sequence_shards: int


def micro_batch_slice(architecture: Architecture, layout: Layout, request: MemoryRequest) -> Slice:
    tokens = layout.micro_batch * request.sequence_length / layout.cp
    whole = request.element_bytes * tokens * architecture.hidden
    shards = layout.tp if layout.sequence_parallel else 1
    return Slice(
        tokens=tokens,
        element_bytes=request.element_bytes,
        hidden_bytes=whole / shards,
        gathered_hidden_bytes=whole,
        score_elements=architecture.heads * tokens * request.sequence_length / layout.tp,
        sequence_shards=shards,
    )


def saved_by_op(
    architecture: Architecture,
    layout: Layout,
    request: MemoryRequest,
    facts: MemoryFacts,
    *,
    routed: bool = False,
) -> dict[str, float]:
    """Bytes kept per op of one layer and micro-batch, nothing recomputed.

    The accounting of Korthikanti et al. (arXiv:2205.05198) brought to flash attention, grouped-query
    heads, SwiGLU and today's kernels: the softmax keeps one fp32 number per row and head, the raw QKV
    output is freed, norms keep their statistics. With a frozen base the inputs of linear layers are
    kept only where an adapter needs them.
    """
    part = micro_batch_slice(architecture, layout, request)
    q, kv, tp = architecture.q_width, architecture.kv_width, layout.tp
    row = part.element_bytes * part.tokens / tp
    stored = request.stored_input_bytes / request.element_bytes
    statistics = 2 if architecture.norm == "layernorm" else 1
    outputs = 2 if layout.cp > 1 and request.context_exchange == "all-to-all" else 1
    saved = {
        "norm 1 input": part.hidden_bytes,
        "norm 1 output": part.hidden_bytes,
        "q, k, v": row * (q + 2 * kv),
        "attention output": row * q * outputs,
        "norm 2 input": part.hidden_bytes,
        "norm 2 output": part.hidden_bytes,
        "mlp input projection": row * architecture.ffn_in_width * stored,
        "mlp activation": row * architecture.ffn,
        "norm statistics": 2 * statistics * 4.0 * part.tokens / part.sequence_shards,
    }
    saved |= attention_core_by_op(architecture, layout, request)
    if architecture.latent is not None:
        saved |= _latents_by_op(architecture, part, row)
        saved["attention output"] *= architecture.value_dim / architecture.head_dim
    if routed:
        saved |= _experts_by_op(architecture, layout, request, part, row)
    if architecture.mlp == "swiglu" and facts.unfused_swiglu:
        width = architecture.ffn if not routed else _shared_ffn(architecture)
        saved["mlp input projection"] += row * width
        if routed and architecture.experts is not None:
            rows = routed_rows(architecture, layout, request)
            saved["expert input projection"] += (
                request.element_bytes * rows * architecture.experts.ffn / layout.experts_tp
            )
    if request.dropout > 0.0:
        mask = part.tokens * architecture.hidden / part.sequence_shards
        saved |= {"projection dropout mask": mask, "mlp dropout mask": mask}
    return _without_frozen_inputs(saved, part, request) if request.frozen else saved


def _latents_by_op(architecture: Architecture, part: Slice, row: float) -> dict[str, float]:
    """Latents before and after their norms, and queries, keys and values of all heads."""
    latent = architecture.latent
    if latent is None:
        return {}
    widths = 2 * latent.query_rank + 2 * latent.kv_rank + latent.rope_dim
    return {
        "latents": part.element_bytes * part.tokens / part.sequence_shards * widths,
        "q, k, v": row * architecture.heads * (2 * latent.key_dim + latent.value_dim),
    }


def _shared_ffn(architecture: Architecture) -> int:
    return 0 if architecture.experts is None else architecture.experts.shared_ffn


def routed_rows(architecture: Architecture, layout: Layout, request: MemoryRequest) -> float:
    """Rows of one micro-batch that the experts of the most loaded rank receive.

    A capacity is a whole number of rows per expert and rank.
    """
    experts = architecture.experts
    if experts is None:
        return 0.0
    tokens = layout.micro_batch * request.sequence_length / layout.cp * layout.experts_tp / layout.tp
    rows = tokens * request.routing.rows_per_token(experts)
    if request.routing.static_buffer:
        rows *= layout.ep
    if request.routing.capacity_factor is None:
        return rows
    return float(ceil(rows / experts.count) * experts.count)


def _experts_by_op(
    architecture: Architecture, layout: Layout, request: MemoryRequest, part: Slice, row: float
) -> dict[str, float]:
    """What replaces the MLP of a layer with experts.

    Per received row its input, what goes into and comes out of the activation function, and 8 bytes of
    weights and indices; per token and expert about 20 bytes of the router (findings of measured runs,
    docs/models.md). The legacy grouped GEMM of Megatron weighs rows in kernels of their own, which
    keep silu(gate) and the product before it was weighted too (activation_func_with_probs).
    """
    experts = architecture.experts
    if experts is None:
        return {}
    rows = routed_rows(architecture, layout, request)
    gated = 2 if architecture.mlp == "swiglu" else 1
    inner = part.element_bytes * rows * experts.ffn / layout.experts_tp
    stored = request.stored_input_bytes / request.element_bytes
    unfused = gated * inner if request.routing.grouped_gemm == "legacy" else 0.0
    return {
        "mlp input projection": row * gated * experts.shared_ffn * stored,
        "mlp activation": row * experts.shared_ffn,
        "expert rows": rows * (part.element_bytes * architecture.hidden + 8.0),
        "expert input projection": gated * inner * stored + unfused,
        "expert activation": inner,
        "router": 20.0 * part.tokens / part.sequence_shards * experts.count,
    }


def attention_core_by_op(
    architecture: Architecture, layout: Layout, request: MemoryRequest
) -> dict[str, float]:
    """What the attention core keeps beside q, k, v and its output; selective recompute drops all of it.

    Fused: 4·S·a/t of softmax statistics. Unfused: the probabilities (2·a·S·s/t in 16 bits) and with
    dropout their mask (1 byte) and the dropped probabilities again: 5·a·s²·b/t in the paper.
    """
    part = micro_batch_slice(architecture, layout, request)
    if request.attention == "fused":
        return {"softmax statistics": 4.0 * part.tokens * architecture.heads / layout.tp}
    saved = {"softmax output": part.element_bytes * part.score_elements}
    if request.dropout > 0.0:
        saved["attention dropout mask"] = part.score_elements
        saved["attention dropout output"] = part.element_bytes * part.score_elements
    return saved


def _without_frozen_inputs(saved: dict[str, float], part: Slice, request: MemoryRequest) -> dict[str, float]:
    """Drop inputs that only a base weight's gradient would need; add what the adapters keep.

    Norm inputs, q, k, v, the attention output, the first product of MLP and experts and the router's
    choices stay: gradients pass through them. QKV's input stays where an adapter reads it; each adapter
    keeps its S·rank inner product.
    """
    dropped = {"norm 2 output", "mlp activation", "expert rows", "expert activation"}
    if "qkv" not in request.lora_targets:
        dropped.add("norm 1 output")
    kept = {op: 0.0 if op in dropped else size for op, size in saved.items()}
    adapters = len(set(request.lora_targets))
    return kept | {"adapter products": part.element_bytes * part.tokens * request.lora_rank * adapters}


@dataclass(frozen=True)
class LayerActivations:
    """Bytes of one layer and micro-batch: kept whole, kept when recomputed, and parts of it."""

    whole: float
    recomputed: float  # what a recomputed layer keeps
    rebuilt: float  # what it makes again at once, beside its attention core
    mlp: float  # the part its MLP block keeps
    core: float  # the part its attention core keeps beside q, k, v and output


def layer_activations(
    architecture: Architecture,
    layout: Layout,
    request: MemoryRequest,
    facts: MemoryFacts,
    *,
    routed: bool = False,
) -> LayerActivations:
    """Sizes for the layout's recompute kind: full keeps the layer's input, selective all but its modules,
    operator every second matrix product."""
    saved = saved_by_op(architecture, layout, request, facts, routed=routed)
    whole = sum(saved.values())
    core = sum(attention_core_by_op(architecture, layout, request).values())
    modules = [m for m in layout.recompute.modules if m != ("mlp" if routed else "moe")]
    others = sum(saved.get(op, 0.0) for m in modules if m != "core_attn" for op in MODULE_OPS[m])
    kept = {
        "none": whole,
        "selective": whole - (core if "core_attn" in modules else 0.0) - others,
        "operator": _kept_by_operator(architecture, layout, request, saved),
        "full": saved["norm 1 input"],
    }
    return LayerActivations(
        whole=whole,
        recomputed=kept[layout.recompute.kind],
        rebuilt=others if layout.recompute.kind == "selective" else whole - kept[layout.recompute.kind],
        mlp=sum(saved.get(op, 0.0) for op in MLP_OPS),
        core=core,
    )


def _kept_by_operator(
    architecture: Architecture, layout: Layout, request: MemoryRequest, saved: dict[str, float]
) -> float:
    """The layer's input, attention's output, and every second matrix product: q, v, gate, down."""
    part = micro_batch_slice(architecture, layout, request)
    row = part.element_bytes * part.tokens / layout.tp
    widths = architecture.q_width + architecture.kv_width + architecture.ffn
    down = part.hidden_bytes if architecture.mlp == "swiglu" else 0.0
    core = sum(attention_core_by_op(architecture, layout, request).values())
    return saved["norm 1 input"] + saved["attention output"] + core + row * widths + down
