"""Architectures of Hugging Face: each a list of traits, which read a part of ``config.json`` into our fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.interop.configs.settings import Settings, as_number
from sim.scenario.errors import shown

Fields = dict[str, Any]
Trait = Callable[[Settings], Fields]


def widths(s: Settings) -> Fields:
    return {
        "layers": s.whole("num_hidden_layers", 1),
        "hidden": s.whole("hidden_size", 1),
        "ffn": s.whole("intermediate_size", 1),
        "heads": s.whole("num_attention_heads", 1),
        "kv_heads": s.whole("num_key_value_heads", 1),
        "head_dim": s.whole("head_dim", 1),
        "vocab": s.whole("vocab_size", 1),
        "tied_embeddings": s.flag("tie_word_embeddings") or None,
    }


def known_layers(s: Settings) -> Fields:
    """Refuses layers of another kind than attention, in whatever family."""
    kinds = s.value("layer_types")
    listed = {str(kind) for kind in kinds} if isinstance(kinds, list) else set()
    if unknown := listed - {"full_attention", "sliding_attention", "chunked_attention"}:
        s.refuse("layer_types", f"{shown(min(unknown))}: not modelled yet: full or sliding attention")
    return {}


def gpt2(s: Settings) -> Fields:
    hidden = s.whole("n_embd", 1)
    tied = s.flag("tie_word_embeddings") if "tie_word_embeddings" in s.given else True
    return {
        "layers": s.whole("n_layer", 1),
        "hidden": hidden,
        "ffn": s.whole("n_inner", 1) or (4 * hidden if hidden else None),
        "heads": s.whole("n_head", 1),
        "vocab": s.whole("vocab_size", 1),
        "max_positions": s.whole("n_positions", 1),
        "mlp": "gelu",
        "norm": "layernorm",
        "position": "learned",
        "qkv_bias": True,
        "linear_bias": True,
        "tied_embeddings": tied or None,
    }


def optional_biases(s: Settings) -> Fields:
    """``attention_bias`` is on four projections of which three are ours; with ``mlp_bias`` all have one."""
    attention, mlp = s.flag("attention_bias"), s.flag("mlp_bias")
    return {"qkv_bias": attention or None, "linear_bias": (attention and mlp) or None}


def fixed(**fields: object) -> Trait:
    """What every model of a family has, whatever its file says."""
    return lambda _: dict(fields)


def optional_qk_norm(s: Settings) -> Fields:
    return {"qk_norm": s.flag("use_qk_norm") or None}


def window(s: Settings) -> Fields:
    """A sliding window in all layers, or in those that ``layer_types`` lists."""
    size = s.whole("sliding_window", 1)
    kinds = s.value("layer_types")
    if isinstance(kinds, list):
        return _alternating(s, size, [kind == "full_attention" for kind in kinds])
    return {"window": size}


def _alternating(s: Settings, size: int | None, full: list[bool]) -> Fields:
    if all(full) or size is None:
        return {}
    every = full.index(True) + 1 if any(full) else 0
    if full != [every > 0 and (layer + 1) % every == 0 for layer in range(len(full))]:
        s.refuse("layer_types", "not modelled yet: only every N-th layer without a window")
        return {}
    return {"window": size, "full_every": every or None}


def switched_window(s: Settings) -> Fields:
    if not s.flag("use_sliding_window"):
        return {}
    first = s.whole("max_window_layers")
    if first and first != s.whole("num_hidden_layers", 1):
        s.refuse("max_window_layers", f"{first}: windows in the later layers only are not modelled yet")
        return {}
    return {"window": s.whole("sliding_window", 1)} if first == 0 else {}


def chunks(s: Settings) -> Fields:
    """Llama 4: attention inside chunks, taken as a window of that length; layers without rotation see everything."""
    size, every = s.whole("attention_chunk_size", 1), s.whole("no_rope_layer_interval", 1) or 4
    rope = s.value("no_rope_layers")  # 1 with rotation, 0 without
    if isinstance(rope, list) and rope:
        return _alternating(s, size, [as_number(flag) == 0 for flag in rope])
    return {"window": size, "full_every": every if size else None}


def latent(s: Settings) -> Fields:
    """``head_dim`` there is the rotated part only."""
    return {
        "head_dim": None,
        "kv_heads": None,
        "latent": {
            "query_rank": s.whole("q_lora_rank") or 0,
            "kv_rank": s.whole("kv_lora_rank", 1) or 512,
            "rope_dim": s.whole("qk_rope_head_dim", 1) or 64,
            "plain_dim": s.whole("qk_nope_head_dim", 1) or 128,
            "value_dim": s.whole("v_head_dim", 1) or 128,
        },
    }


def further_tokens(s: Settings) -> Fields:
    return {"mtp_layers": s.whole("num_nextn_predict_layers") or None}


def _count(s: Settings) -> int | None:
    names = ("n_routed_experts", "num_local_experts", "num_experts")
    return next((found for name in names if (found := s.whole(name, 1)) is not None), None)


def _top_k(s: Settings) -> int | None:
    return s.whole("num_experts_per_tok", 1) or s.whole("experts_per_token", 1)


def wide_experts(s: Settings) -> Fields:
    """Experts as wide as the MLP (Mixtral, gpt-oss)."""
    return {"experts": _experts(s, s.whole("intermediate_size", 1))}


def biased_router(s: Settings) -> Fields:
    found = _experts(s, s.whole("intermediate_size", 1))
    return {"experts": None if found is None else found | {"router_bias": True}}


def minimax_experts(s: Settings) -> Fields:
    return {"ffn": s.whole("mlp_intermediate_size", 1) or s.whole("intermediate_size", 1)} | biased_router(s)


def llama4_experts(s: Settings) -> Fields:
    """One shared expert as wide as the routed ones; the dense MLP has a width of its own."""
    width = s.whole("intermediate_size", 1)
    experts = _experts(s, width)
    if experts is None:
        return {}
    every = s.whole("interleave_moe_layer_step", 1) or 1
    listed, layers = s.value("moe_layers"), s.whole("num_hidden_layers", 1) or 0
    if isinstance(listed, list) and listed and listed != list(range(every - 1, layers, every)):
        s.refuse("moe_layers", "not modelled yet: only every N-th layer has experts")
    dense = s.whole("intermediate_size_mlp", 1) or width
    return {"ffn": dense, "experts": experts | {"shared_ffn": width or 0, "every": every}}


def qwen_experts(s: Settings) -> Fields:
    width = s.whole("moe_intermediate_size", 1)
    experts = _experts(s, width)
    dense_only = s.value("mlp_only_layers") or []
    if dense_only:
        s.refuse("mlp_only_layers", f"{shown(dense_only)}: single dense layers are not modelled yet")
    if experts is None:
        return {}
    shared = s.whole("shared_expert_intermediate_size") or 0
    experts |= {
        "every": s.whole("decoder_sparse_step", 1) or 1,
        "shared_ffn": shared,
        "shared_gate": shared > 0,
    }
    return {"experts": experts}


def deepseek_experts(s: Settings) -> Fields:
    """DeepSeek-V2 limits groups only where ``topk_method`` says so; V3 and its kin have a bias per expert."""
    width = s.whole("moe_intermediate_size", 1)
    experts = _experts(s, width)
    if experts is None:
        return {}
    method, groups = s.text("topk_method"), s.whole("n_group", 1) or 1
    experts |= {
        "shared_ffn": (s.whole("n_shared_experts") or 0) * (width or 0),
        "dense_layers": s.whole("first_k_dense_replace") or 0,
        "every": s.whole("moe_layer_freq", 1) or 1,
        "router_bias": s.text("model_type") != "deepseek_v2",
    }
    if groups > 1 and method != "greedy":
        experts |= {"groups": groups, "group_limit": s.whole("topk_group", 1) or groups}
    return {"experts": experts}


def _experts(s: Settings, width: int | None) -> Fields | None:
    count, top_k = _count(s), _top_k(s)
    if count is None or count == 1:
        return None
    for name, value in (("num_experts_per_tok", top_k), ("moe_intermediate_size", width)):
        if value is None:
            s.refuse(name, "is missing: the experts are not described")
            return None
    return {"count": count, "top_k": top_k, "ffn": width}


FAMILIES: dict[str, tuple[Trait, ...]] = {
    "llama": (widths, optional_biases),
    "llama4_text": (widths, optional_biases, chunks, llama4_experts),
    "mistral": (widths, window),
    "mixtral": (widths, window, wide_experts),
    "phi3": (widths, window),
    "qwen2": (widths, fixed(qkv_bias=True), switched_window),
    "qwen2_moe": (widths, fixed(qkv_bias=True), switched_window, qwen_experts),
    "qwen3": (widths, fixed(qk_norm=True), optional_biases, switched_window),
    "qwen3_moe": (widths, fixed(qk_norm=True), optional_biases, switched_window, qwen_experts),
    "deepseek_v2": (widths, latent, deepseek_experts),
    "deepseek_v3": (widths, latent, deepseek_experts, further_tokens),
    "kimi_k2": (widths, latent, deepseek_experts, further_tokens),
    "glm4_moe": (widths, optional_biases, optional_qk_norm, deepseek_experts, further_tokens),
    "gpt_oss": (widths, fixed(qkv_bias=True, linear_bias=True), window, biased_router),
    "minimax_m2": (widths, optional_qk_norm, minimax_experts),
    "gpt2": (gpt2,),
}
"""By ``model_type``, in the order in which traits are read: later ones replace fields of earlier ones."""
