"""A scenario's model, training and plan as flags of Megatron-LM."""

from __future__ import annotations

from collections.abc import Iterator

from sim.interop.configs.repeats import even
from sim.scenario import Scenario
from sim.workload.architecture import Architecture
from sim.workload.experts import Experts

Flag = tuple[str, object]
"""A flag with its value; True for a flag alone."""

_FORMATS: dict[str, tuple[Flag, ...]] = {
    "fp32": (),
    "bf16": (("--bf16", True),),
    "fp16": (("--fp16", True),),
    "fp8": (("--bf16", True), ("--fp8-format", "hybrid"), ("--fp8-recipe", "delayed")),
    "mxfp8": (("--bf16", True), ("--fp8-format", "e4m3"), ("--fp8-recipe", "mxfp8")),
    "nvfp4": (("--bf16", True), ("--fp4-format", "e2m1"), ("--fp4-recipe", "nvfp4")),
}
_CONTEXT = {"ring": "p2p", "all-gather": "all_gather", "all-to-all": "a2a"}
_SHARDING: dict[str, tuple[Flag, ...]] = {
    "ddp": (),
    "zero-1": (("--use-distributed-optimizer", True),),
    "zero-2": (("--use-megatron-fsdp", True), ("--data-parallel-sharding-strategy", "optim_grads")),
    "fsdp": (("--use-torch-fsdp2", True), ("--no-gradient-accumulation-fusion", True)),
}


def model_flags(model: Architecture, sequence_length: int) -> Iterator[Flag]:
    """Widths, norms, biases, positions, experts."""
    yield "--num-layers", model.layers
    yield "--hidden-size", model.hidden
    yield "--ffn-hidden-size", model.ffn
    yield "--num-attention-heads", model.heads
    yield from _attention(model)
    yield from _shape(model, sequence_length)
    if model.mtp_layers:
        yield "--mtp-num-layers", model.mtp_layers
    # its null tokenizer adds one word, for the end of a document
    yield "--tokenizer-type", "NullTokenizer"
    yield "--vocab-size", model.vocab - 1
    if model.experts is not None:
        yield from _experts(model.experts, model.layers)


def _attention(model: Architecture) -> Iterator[Flag]:
    latent = model.latent
    if latent is not None:
        yield "--multi-latent-attention", True
        if latent.query_rank:
            yield "--q-lora-rank", latent.query_rank
        yield "--kv-lora-rank", latent.kv_rank
        yield "--qk-head-dim", latent.plain_dim
        yield "--qk-pos-emb-head-dim", latent.rope_dim
        yield "--v-head-dim", latent.value_dim
    else:
        yield "--kv-channels", model.head_dim
        if model.kv_heads != model.heads:
            yield "--group-query-attention", True
            yield "--num-query-groups", model.kv_heads
    if model.qk_norm or latent is not None:  # the latents have norms
        yield "--qk-layernorm", True
    if model.window:
        yield "--window-size", f"{model.window},0"
        if model.full_every:
            yield "--window-attn-skip-freq", model.full_every
    if model.sinks:
        yield "--softmax-type", "learnable"


def _shape(model: Architecture, sequence_length: int) -> Iterator[Flag]:
    if model.mlp == "swiglu":
        yield "--swiglu", True
    yield "--normalization", {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}[model.norm]
    yield "--position-embedding-type", "learned_absolute" if model.position == "learned" else model.position
    learned = model.position == "learned"
    yield "--max-position-embeddings", model.max_positions if learned else sequence_length
    if not model.linear_bias:
        yield "--disable-bias-linear", True
        if model.qkv_bias:
            yield "--add-qkv-bias", True
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights", True


def _experts(experts: Experts, layers: int) -> Iterator[Flag]:
    yield "--num-experts", experts.count
    yield "--moe-router-topk", experts.top_k
    yield "--moe-ffn-hidden-size", experts.ffn
    if experts.shared_ffn:
        yield "--moe-shared-expert-intermediate-size", experts.shared_ffn
    if experts.shared_gate:
        yield "--moe-shared-expert-gate", True
    if experts.groups > 1:
        yield "--moe-router-num-groups", experts.groups
        yield "--moe-router-group-topk", experts.group_limit
    if experts.router_bias:
        yield "--moe-router-enable-expert-bias", True
        yield "--moe-router-score-function", "sigmoid"
    if experts.dense_layers or experts.every > 1:
        yield "--moe-layer-freq", _layer_pattern(experts, layers)


def _layer_pattern(experts: Experts, layers: int) -> str:
    """``([0]*3+[1]*58)``."""
    runs, rest = divmod(layers - experts.dense_layers, experts.every)
    run = ",".join(["0"] * (experts.every - 1) + ["1"])
    terms = [f"[0]*{experts.dense_layers}"] * (experts.dense_layers > 0) + [f"[{run}]*{runs}"] * (runs > 0)
    return f"({'+'.join(terms + [f'[0]*{rest}'] * (rest > 0))})"


def training_flags(scenario: Scenario, model: Architecture) -> Iterator[Flag]:
    """Batch, formats, recomputation, kernels, routing."""
    training = scenario.training
    yield "--seq-length", training.sequence_length
    yield "--micro-batch-size", training.micro_batch
    yield "--global-batch-size", training.global_batch
    yield from _FORMATS.get(training.precision, ())
    if training.precision == "fp16" and training.gradient_dtype == "fp32":
        yield "--accumulate-allreduce-grads-in-fp32", True
    elif training.precision not in ("fp16", "fp32") and training.gradient_dtype == "bf16":
        yield "--grad-reduce-in-bf16", True
    yield "--hidden-dropout", training.dropout
    yield "--attention-dropout", training.dropout
    yield "--attention-backend", "unfused" if training.attention == "unfused" else "auto"
    if training.cross_entropy == "fused":
        yield "--cross-entropy-loss-fusion", True
    yield from _recompute(scenario)
    if model.experts is not None:
        yield from _routing(scenario)


def _recompute(scenario: Scenario) -> Iterator[Flag]:
    asked = scenario.training.recompute
    if asked.kind == "selective":
        yield "--recompute-granularity", "selective"
    elif asked.kind == "full":
        yield "--recompute-granularity", "full"
        yield "--recompute-method", "uniform" if asked.layers is None else "block"
        yield "--recompute-num-layers", asked.layers or 1


def _routing(scenario: Scenario) -> Iterator[Flag]:
    moe, ep = scenario.training.moe, scenario.parallelism.ep
    if moe.dispatch == "deduplicated" and ep > 1:
        yield "--moe-token-dispatcher-type", "flex"
        yield "--moe-enable-deepep", True
        if moe.dispatch_units is not None:
            yield "--moe-deepep-num-sms", moe.dispatch_units
    else:
        yield "--moe-token-dispatcher-type", "alltoall"
    if moe.grouped_gemm == "pooled":
        yield "--moe-grouped-gemm", True
    if moe.capacity_factor is not None:
        yield "--moe-expert-capacity-factor", moe.capacity_factor
        yield "--moe-pad-expert-input-to-capacity", True


def plan_flags(scenario: Scenario, model: Architecture) -> Iterator[Flag]:
    """Degrees, schedule, sharding, overlap."""
    p = scenario.parallelism
    yield "--tensor-model-parallel-size", p.tp
    yield "--pipeline-model-parallel-size", p.pp
    yield "--context-parallel-size", p.cp
    if p.cp > 1:
        yield "--cp-comm-type", _CONTEXT[p.cp_method]
    if model.experts is not None:
        yield "--expert-model-parallel-size", p.ep
    if p.tp > 1 and p.sequence_parallel:
        yield "--sequence-parallel", True
    if p.pp > 1:
        yield from _stages(scenario, model)
    yield from _SHARDING[p.data_sharding]
    if p.overlap.dp and p.data_sharding != "fsdp":
        yield "--overlap-grad-reduce", True
        if p.data_sharding != "ddp":
            yield "--overlap-param-gather", True
    if p.overlap.tp and p.tp > 1:
        yield "--tp-comm-overlap", True
    if p.overlap.ep and p.ep > 1:
        yield "--overlap-moe-expert-parallel-comm", True


def _stages(scenario: Scenario, model: Architecture) -> Iterator[Flag]:
    p, parts = scenario.parallelism, scenario.parts
    layout = even(model.layers, parts) if isinstance(p.layout, str) else p.layout
    if not isinstance(p.layout, str) or len(set(layout)) > 1:  # Megatron spreads layers by itself only evenly
        yield "--pipeline-model-parallel-layout", _layout(layout, model.mtp_layers)
    elif p.schedule == "interleaved":
        yield "--num-virtual-stages-per-pipeline-rank", p.virtual_stages
    if p.schedule == "interleaved" and not p.overlap.pp:
        yield "--no-overlap-p2p-communication", True


def _layout(layers: tuple[int, ...], mtp_layers: int) -> str:
    """``Et*3|t*2|t*2L``."""
    parts = [f"t*{count}" if count else "" for count in layers]
    parts[0] = f"E{parts[0]}"
    parts[-1] = f"{parts[-1]}{'m' * mtp_layers}L"
    return "|".join(parts)
