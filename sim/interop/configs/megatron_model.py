"""The model that Megatron's arguments describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sim.interop.configs.draft import Draft
from sim.interop.configs.model_fields import put_model
from sim.interop.configs.repeats import LayerPatternError, layer_pattern
from sim.interop.configs.settings import Settings, as_number
from sim.interop.configs.vocabulary import vocabulary
from sim.scenario.errors import shown

_POSITIONS = {
    "rope": "rope", "yarn": "rope", "mrope": "rope", "learned_absolute": "learned", "none": "none",
}  # fmt: skip

_PLACES = {
    "layers": "num_layers", "hidden": "hidden_size", "ffn": "ffn_hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_query_groups", "head_dim": "kv_channels", "vocab": "vocab_size", "experts": "num_experts",
    "latent": "multi_latent_attention", "mtp_layers": "mtp_num_layers", "window": "window_size",
}  # fmt: skip


def put_megatron_model(s: Settings, draft: Draft, hint: str) -> None:
    """Reads the widths into ``draft``; what Megatron would refuse, or is not modelled, is refused."""
    kind = s.text("model_type")
    if kind not in ("gpt", "llama", None):
        s.refuse("model_type", f"{shown(kind)}: not modelled yet: only gpt models (transformers) are")
    layers, hidden, heads = (s.whole(n, 1) for n in ("num_layers", "hidden_size", "num_attention_heads"))
    for name, value in (("num_layers", layers), ("hidden_size", hidden), ("num_attention_heads", heads)):
        if value is None:
            s.refuse(name, "is missing: the model is not described")
    rows = vocabulary(s, draft)
    if layers is None or hidden is None or heads is None or rows is None:
        return
    fields = _widths(s, layers, hidden, heads, rows) | _attention(s, draft) | _norms_and_biases(s, draft)
    fields["experts"] = _experts(s, draft, layers, fields["ffn"])
    places = {field: s.at(name) for field, name in _PLACES.items() if name in s.given}
    tokenizer = (s.text("tokenizer_model") or "").rpartition("/")[2]
    hints = tuple(name for name in (hint, tokenizer, Path(s.start.source).stem) if name)
    put_model(draft, fields, places, s.at("num_layers"), hints, f"arguments in {s.start.source}")


def _widths(s: Settings, layers: int, hidden: int, heads: int, rows: int) -> dict[str, Any]:
    grouped = s.flag("group_query_attention")
    gated = s.flag("swiglu") or s.flag("quick_geglu")
    # Megatron: 4h, or two thirds of that, in steps of 64, for a gated MLP
    ffn = s.whole("ffn_hidden_size", 1) or (int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden)
    latent = s.flag("multi_latent_attention")
    return {
        "layers": layers,
        "hidden": hidden,
        "ffn": max(ffn, 1),
        "heads": heads,
        "kv_heads": s.whole("num_query_groups", 1) if grouped and not latent else None,
        "head_dim": None if latent else s.whole("kv_channels", 1) or (hidden // heads or None),
        "vocab": rows,
        "mlp": "swiglu" if gated else "gelu",
        "mtp_layers": s.whole("mtp_num_layers") or None,
    }


def _attention(s: Settings, draft: Draft) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if s.flag("multi_latent_attention"):
        fields["latent"] = {
            "query_rank": s.whole("q_lora_rank") or 0,
            "kv_rank": s.whole("kv_lora_rank", 1),
            "rope_dim": s.whole("qk_pos_emb_head_dim", 1),
            "plain_dim": s.whole("qk_head_dim", 1),
            "value_dim": s.whole("v_head_dim", 1),
        }
    else:
        fields["qk_norm"] = s.flag("qk_layernorm") or None
    window, every = _window(s), s.value("window_attn_skip_freq")
    if s.flag("use_sink_attention"):  # Primus
        window = s.whole("sink_sliding_window") or window
        every = 2 if s.flag("sink_window_even_layers_only") and window else every
    fields["sinks"] = s.flag("use_sink_attention") or s.text("softmax_type") == "learnable" or None
    if s.text("softmax_type") not in (None, "vanilla", "learnable", "off-by-one"):
        s.refuse("softmax_type", f"{shown(s.value('softmax_type'))}: vanilla, off-by-one or learnable")
    if window:
        fields["window"] = window
        number = as_number(every)
        if every is not None and number is None:
            s.refuse(
                "window_attn_skip_freq", f"{shown(every)}: a pattern by layer is not modelled yet: a number"
            )
        fields["full_every"] = int(number) if number else None
    position = _position(s)
    fields["position"] = "rope" if s.flag("use_rotary_position_embeddings") else position
    if fields["position"] == "learned":
        fields["max_positions"] = s.whole("max_position_embeddings", 1) or s.whole("seq_length", 1)
    if s.flag("quick_geglu"):
        draft.warn(
            "quick_geglu: counted as swiglu, which has matrices of the same widths", s.at("quick_geglu")
        )
    return fields


def _position(s: Settings) -> str:
    """Here ``none`` is a kind, where other settings mean by it that nothing is said."""
    found = s.given.get("position_embedding_type")
    if found is not None and found.value == "none":
        return "none"
    return s.choice("position_embedding_type", _POSITIONS) or "rope"


def _window(s: Settings) -> int | None:
    """``window_size``: (tokens before, tokens after)."""
    given = s.value("window_size")
    if isinstance(given, str):
        given = given.strip("()[] ").split(",")
    first = given[0] if isinstance(given, list) and given else given
    number = as_number(first)
    if given is not None and (number is None or number != int(number)):
        s.refuse("window_size", f"{shown(s.value('window_size'))}: two numbers of tokens, before and after")
        return None
    return int(number) if number and number > 0 else None


def _norms_and_biases(s: Settings, draft: Draft) -> dict[str, Any]:
    biases = s.flag("add_bias_linear")
    for name in ("squared_relu", "openai_gelu"):
        if s.flag(name):
            draft.warn(f"{name}: counted as gelu, an MLP of two matrices", s.at(name))
    return {
        "norm": s.choice("normalization", {"RMSNorm": "rmsnorm", "LayerNorm": "layernorm"}),
        "linear_bias": biases or None,
        "qkv_bias": biases or s.flag("add_qkv_bias") or None,
        "tied_embeddings": None if s.flag("untie_embeddings_and_output_weights") else True,
    }


def _experts(s: Settings, draft: Draft, layers: int, ffn: int) -> dict[str, Any] | None:
    count = s.whole("num_experts")
    if not count:
        return None
    experts: dict[str, Any] = {
        "count": count,
        "top_k": s.whole("moe_router_topk", 1) or 1,
        "ffn": s.whole("moe_ffn_hidden_size", 1) or ffn,
        "shared_ffn": s.whole("moe_shared_expert_intermediate_size") or 0,
        "router_bias": s.flag("moe_router_enable_expert_bias"),
        "shared_gate": s.flag("moe_shared_expert_gate"),
    }
    groups = s.whole("moe_router_num_groups", 1)
    if groups and groups > 1:
        experts |= {"groups": groups, "group_limit": s.whole("moe_router_group_topk", 1) or groups}
    return experts | _routed_layers(s, draft, layers)


def _routed_layers(s: Settings, draft: Draft, layers: int) -> dict[str, int]:
    """Which layers have experts: a number (every how many-th, the first among them) or a list of 0 and 1."""
    given = s.value("moe_layer_freq")
    number = as_number(given)
    try:
        if number is not None and number >= 1:
            pattern = tuple(int(layer % int(number) == 0) for layer in range(layers))
        else:
            pattern = tuple(int(i) for i in given) if isinstance(given, list) else layer_pattern(str(given))
    except (LayerPatternError, ValueError, TypeError) as error:
        s.refuse("moe_layer_freq", f"{shown(given)}: {error}")
        return {}
    if len(pattern) != layers:
        s.refuse("moe_layer_freq", f"{shown(given)}: {len(pattern)} entries for {layers} layers")
        return {}
    found = _rule(pattern)
    if found is None:
        s.refuse(
            "moe_layer_freq", f"{shown(given)}: not modelled yet: only dense layers, then every N-th routed"
        )
        return {}
    dense, every = found
    if dense < 0:
        draft.warn(
            f"moe_layer_freq: of each {every} layers the first is routed there, the last here: as many in all",
            s.at("moe_layer_freq"),
        )
    return {"dense_layers": max(0, dense), "every": every}


def _rule(pattern: tuple[int, ...]) -> tuple[int, int] | None:
    """Dense layers before, and every how many-th of the others is routed; None where it is no such rule.

    Ours routes the last layer of each run. A pattern that begins with a routed layer would need runs that
    begin before the model does (a negative number of dense layers): only with whole runs are they as many.
    """
    if 1 not in pattern:
        return None
    first = pattern.index(1)
    routed = [layer for layer, one in enumerate(pattern) if one]
    every = routed[1] - routed[0] if len(routed) > 1 else len(pattern) - first
    if routed != list(range(first, len(pattern), every)):
        return None
    dense = first - every + 1
    return None if dense < 0 and len(pattern) % every else (dense, every)
