"""What one step computes, from Megatron's arguments."""

from __future__ import annotations

from sim.interop.configs.draft import Draft
from sim.interop.configs.settings import Settings, as_number
from sim.scenario.errors import shown

_RECIPES = {"delayed": "fp8", "tensorwise": "fp8", "blockwise": "fp8", "mxfp8": "mxfp8"}
_ATTENTION = {"auto": "fused", "flash": "fused", "fused": "fused", "unfused": "unfused", "local": "unfused"}


def put_megatron_training(s: Settings, draft: Draft) -> None:
    """Reads batch, formats, recomputation and kernels into ``draft``."""
    for name, field in (("seq_length", "sequence_length"), ("micro_batch_size", "micro_batch")):
        value = s.whole(name, 1)
        if value is None and name == "seq_length" and draft.override("training.sequence_length") is None:
            s.refuse(name, "is missing: give it with --set training.sequence_length=N")
        draft.put(f"training.{field}", value, s.at(name))
    draft.put("training.global_batch", s.whole("global_batch_size", 1), s.at("global_batch_size"))
    _formats(s, draft)
    _recompute(s, draft)
    _kernels(s, draft)
    if (optimizer := s.text("optimizer")) not in ("adam", None):
        s.refuse("optimizer", f"{shown(optimizer)}: not modelled yet: adam")
    _lora(s, draft)


def put_megatron_routing(s: Settings, draft: Draft) -> None:
    """How tokens reach their experts, for a model that has some."""
    if not s.whole("num_experts"):
        return
    ep = s.whole("expert_model_parallel_size", 1) or 1
    dispatch, place = _dispatch(s, ep)
    if dispatch != "plain" and ep > 1:
        draft.put("training.moe.dispatch", dispatch, s.at(place))
        units = "turbo_deepep_num_cu" if s.flag("use_turbo_deepep") else "moe_deepep_num_sms"
        draft.put("training.moe.dispatch_units", s.whole(units, 1), s.at(units))
    if not s.flag("moe_grouped_gemm"):
        draft.put("training.moe.grouped_gemm", "loop", s.at("moe_grouped_gemm"))
    capacity = s.number("moe_expert_capacity_factor")
    if capacity is not None and s.flag("moe_pad_expert_input_to_capacity"):
        draft.put("training.moe.capacity_factor", capacity, s.at("moe_expert_capacity_factor"))
    elif capacity is not None:
        draft.warn(
            "moe_expert_capacity_factor: tokens above it are dropped there; with balanced routing none are",
            s.at("moe_expert_capacity_factor"),
        )
    _balance(s, draft, ep, dispatch)


def _dispatch(s: Settings, ep: int) -> tuple[str, str]:
    """Our word for the dispatcher and the setting that says it."""
    if s.flag("use_turbo_mega_moe"):
        return "fused", "use_turbo_mega_moe"
    kind = s.text("moe_token_dispatcher_type")
    if s.flag("use_turbo_deepep"):
        return "deduplicated", "use_turbo_deepep"
    if kind == "flex":
        backend = s.text("moe_flex_dispatcher_backend")
        if s.flag("moe_enable_deepep") or backend in ("deepep", "hybridep"):
            return "deduplicated", "moe_token_dispatcher_type"
        if ep > 1:
            s.refuse(
                "moe_token_dispatcher_type", "'flex' without a back end: moe_enable_deepep is due beside it"
            )
    elif kind not in ("alltoall", "alltoall_seq", "allgather", None):
        s.refuse("moe_token_dispatcher_type", f"{shown(kind)}: alltoall, flex or allgather")
    elif kind in ("allgather", None) and ep > 1:
        s.refuse("moe_token_dispatcher_type", "'allgather': not modelled yet: alltoall or flex")
    return "plain", "moe_token_dispatcher_type"


def _balance(s: Settings, draft: Draft, ep: int, dispatch: str) -> None:
    if not s.flag("moe_router_force_load_balancing"):
        draft.warn(
            "how evenly the router spreads tokens is not in a configuration: training.moe.balance_factor is 1"
        )
    elif ep > 1 and dispatch == "deduplicated" and (s.whole("moe_router_num_groups") or 1) > 1:
        draft.put("training.moe.group_limited", False, s.at("moe_router_force_load_balancing"))


def _formats(s: Settings, draft: Draft) -> None:
    if s.value("fp4") is not None and s.value("fp4") is not False:
        recipe = s.choice("fp4_recipe", {"nvfp4": "nvfp4", "mxfp4": "mxfp4"})
        draft.put("training.precision", recipe, s.at("fp4"))
    elif s.value("fp8") is not None and s.value("fp8") is not False:
        s.choice("fp8", {"hybrid": "fp8", "e4m3": "fp8"})
        draft.put("training.precision", s.choice("fp8_recipe", _RECIPES), s.at("fp8"))
        if s.text("fp8_recipe") in ("blockwise", "tensorwise"):
            draft.warn(
                f"fp8_recipe: {s.text('fp8_recipe')}: scaled as by the software profile's FP8",
                s.at("fp8_recipe"),
            )
    else:
        name = "bf16" if s.flag("bf16") else "fp16" if s.flag("fp16") else "fp32"
        draft.put("training.precision", name, s.at(name))
    narrow = s.flag("grad_reduce_in_bf16") or (
        s.flag("fp16") and not s.flag("bf16") and not s.flag("accumulate_allreduce_grads_in_fp32")
    )
    if s.flag("accumulate_allreduce_grads_in_fp32") and s.flag("grad_reduce_in_bf16"):
        s.refuse("grad_reduce_in_bf16", "contradicts accumulate_allreduce_grads_in_fp32: keep one")
    if narrow:
        draft.put("training.gradient_dtype", "bf16", s.at("grad_reduce_in_bf16"))


def _recompute(s: Settings, draft: Draft) -> None:
    granularity = s.choice("recompute_granularity", {"full": "full", "selective": "selective"})
    at = s.at("recompute_granularity")
    if granularity is None and s.flag("recompute_activations"):
        granularity, at = "selective", s.at("recompute_activations")
    modules = s.value("recompute_modules")
    if isinstance(modules, str):
        modules = modules.split()
    if granularity == "selective" and modules not in (None, ["core_attn"]):
        s.refuse("recompute_modules", f"{shown(modules)}: not modelled yet: core_attn")
    ids = s.value("recompute_layer_ids")
    if ids is not None:
        _recompute_ids(s, draft, ids)
    elif granularity == "full":
        _recompute_layers(s, draft)
    else:
        draft.put("training.recompute", granularity, at)


def _recompute_ids(s: Settings, draft: Draft, ids: object) -> None:
    listed = ids.split(",") if isinstance(ids, str) else ids if isinstance(ids, list) else [ids]
    if any(as_number(i) is None for i in listed):
        s.refuse("recompute_layer_ids", f"{shown(ids)}: numbers of layers")
    elif (s.whole("pipeline_model_parallel_size", 1) or 1) > 1:
        s.refuse("recompute_layer_ids", "beside a pipeline: not modelled yet: as many layers in every stage")
    else:
        draft.put("training.recompute", {"layers": len(set(map(str, listed)))}, s.at("recompute_layer_ids"))


def _recompute_layers(s: Settings, draft: Draft) -> None:
    """``uniform`` in units of one layer is all of them; ``block`` is so many of each (virtual) stage."""
    method = s.choice("recompute_method", {"uniform": "uniform", "block": "block"})
    count, at = s.whole("recompute_num_layers"), s.at("recompute_num_layers")
    if method == "uniform" or count is None:
        if method == "uniform" and (count or 1) > 1:
            s.refuse(
                "recompute_num_layers", "uniform units of several layers are not modelled yet: use block"
            )
        draft.put("training.recompute", "full", s.at("recompute_granularity"))
        return
    most = _largest_part(s)
    whole = most is not None and count > most
    recompute: object = "none" if count == 0 else "full" if whole else {"layers": count}
    draft.put("training.recompute", recompute, at)


def _largest_part(s: Settings) -> int | None:
    """Layers of the largest part where they are spread evenly; None with a layout of their own."""
    layers = s.whole("num_layers", 1)
    if layers is None or s.value("pipeline_model_parallel_layout") is not None:
        return None
    return -(-layers // ((s.whole("pipeline_model_parallel_size", 1) or 1) * (virtual_stages(s) or 1)))


def virtual_stages(s: Settings) -> int | None:
    """Parts of the model that each stage holds; None where Megatron does not interleave."""
    stages, layers = s.whole("pipeline_model_parallel_size", 1) or 1, s.whole("num_layers", 1)
    per_part = s.whole("num_layers_per_virtual_pipeline_stage", 1)
    given = s.whole("num_virtual_stages_per_pipeline_rank", 1) or s.whole(
        "virtual_pipeline_model_parallel_size", 1
    )
    if per_part is not None and layers is not None:
        given = layers // stages // per_part
    return given if given is not None and given > 1 and stages > 1 else None


def _kernels(s: Settings, draft: Draft) -> None:
    backend = s.text("attention_backend") or "auto"
    attention = _ATTENTION.get(backend.rpartition(".")[2])
    if attention is None:
        s.refuse("attention_backend", f"{shown(backend)}: {', '.join(_ATTENTION)}")
    if s.text("transformer_impl") == "local" and not s.flag("use_flash_attn"):
        attention = "unfused"
    if attention == "unfused":
        draft.put("training.attention", attention, s.at("attention_backend"))
    fused = "fused" if s.flag("cross_entropy_loss_fusion") else "unfused"
    draft.put("training.cross_entropy", fused, s.at("cross_entropy_loss_fusion"))
    dropout, attention_dropout = s.number("hidden_dropout") or 0.0, s.number("attention_dropout") or 0.0
    if dropout != attention_dropout:
        draft.warn(
            f"hidden_dropout {dropout:g} and attention_dropout {attention_dropout:g}: one figure here, the larger",
            s.at("hidden_dropout"),
        )
    if max(dropout, attention_dropout) > 0:
        draft.put("training.dropout", max(dropout, attention_dropout), s.at("hidden_dropout"))


def _lora(s: Settings, draft: Draft) -> None:
    lora = s.value("lora")
    if not isinstance(lora, dict) or lora.get("enabled") is not True:
        return
    known = {"linear_qkv": "qkv", "linear_proj": "proj"}
    targets = lora.get("target_modules") or []
    unknown = [t for t in targets if t not in known] if isinstance(targets, list) else [targets]
    if unknown:
        s.refuse(
            "lora",
            f"target_modules {shown(unknown)}: adapters there are not modelled yet: {', '.join(known)}",
        )
    else:
        draft.put(
            "training.lora", {"rank": lora.get("dim"), "targets": [known[t] for t in targets]}, s.at("lora")
        )
