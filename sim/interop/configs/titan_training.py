"""What one step computes, from TorchTitan's settings."""

from __future__ import annotations

from sim.interop.configs.draft import Draft
from sim.interop.configs.settings import Settings, as_number
from sim.scenario.errors import shown

_FP8 = frozenset({"float8", "quantize.linear.float8", "float8_linear"})
_MXFP8 = frozenset({"mx", "quantize.linear.mx", "mxfp8"})
_DTYPES = {"bfloat16": "bf16", "float32": "fp32"}


def put_titan_training(s: Settings, draft: Draft, layers: int | None, *, routed: bool) -> None:
    """Reads batch, formats and recomputation; ``layers`` and ``routed`` (has experts) are the model's."""
    _batch(s, draft)
    _precision(s, draft, routed=routed)
    _recompute(s, draft, layers)
    if (optimizer := s.text("optimizer.name")) not in ("Adam", "AdamW", None):
        s.refuse("optimizer.name", f"{shown(optimizer)}: not modelled yet: Adam or AdamW")
    if routed and not s.flag("debug.moe_force_load_balance"):
        draft.warn(
            "how evenly the router spreads tokens is not in a configuration: training.moe.balance_factor is 1"
        )


def _batch(s: Settings, draft: Draft) -> None:
    """In sequences; newer versions count tokens."""
    name = "training.max_context_length" if "training.max_context_length" in s else "training.seq_len"
    length = s.whole(name, 1)
    draft.put("training.sequence_length", length, s.at(name))
    per_rank = s.whole("training.num_tokens_per_microbatch_per_dp_rank", 1)
    stages = s.whole("parallelism.pipeline_parallel_degree", 1) or 1
    if per_rank is not None and length:
        place = "training.num_tokens_per_microbatch_per_dp_rank"
        draft.put("training.micro_batch", _sequences(s, place, per_rank, length), s.at(place))
    elif stages > 1:
        place = "parallelism.pipeline_parallel_microbatch_size"
        draft.put("training.micro_batch", s.whole(place, 1), s.at(place))
    else:
        place = "training.local_batch_size"
        draft.put("training.micro_batch", s.whole(place, 1), s.at(place))
    per_step = s.whole("training.num_tokens_per_train_step", 1)
    if per_step is not None and length:
        place = "training.num_tokens_per_train_step"
        draft.put("training.global_batch", _sequences(s, place, per_step, length), s.at(place))
        return
    given = as_number(s.value("training.global_batch_size"))
    if given is None or given > 0:
        value = s.whole("training.global_batch_size", 1)
        draft.put("training.global_batch", value, s.at("training.global_batch_size"))
        return
    draft.local_batch = (s.whole("training.local_batch_size", 1) or 1, s.at("training.local_batch_size"))


def _sequences(s: Settings, name: str, tokens: int, length: int) -> int | None:
    if tokens % length:
        s.refuse(
            name, f"{tokens}: a multiple of the {length} tokens of a sequence: packing is not modelled yet"
        )
        return None
    return tokens // length


def _precision(s: Settings, draft: Draft, *, routed: bool) -> None:
    parameters = s.choice("training.mixed_precision_param", _DTYPES)
    kept = s.choice("training.dtype", _DTYPES)
    narrow, place = _narrow(s)
    if narrow is not None and routed and not _experts_narrow(s, narrow):
        draft.warn(
            f"{narrow} in the linear layers alone: the experts' products, most of the work, are in bf16, and so is "
            "everything here",
            s.at(place),
        )
        narrow = None
    precision = narrow or ("bf16" if parameters == "bf16" or kept == "bf16" else "fp32")
    draft.put("training.precision", precision, s.at(place if narrow else "training.mixed_precision_param"))
    if precision == "fp32":
        return
    draft.put("training.parameter_dtype", kept, s.at("training.dtype"))
    reduce = s.choice("training.mixed_precision_reduce", _DTYPES)
    draft.put("training.gradient_dtype", reduce, s.at("training.mixed_precision_reduce"))


def _narrow(s: Settings) -> tuple[str | None, str]:
    """A format below 16 bits of the linear layers, and the setting that asks for it."""
    converters = s.value("model.converters")
    named = converters.split(",") if isinstance(converters, str) else converters
    words = {str(word).strip() for word in named} if isinstance(named, list) else set()
    if words & _MXFP8:
        return "mxfp8", "model.converters"
    if words & _FP8:
        return "fp8", "model.converters"
    return None, "model.converters"


def _experts_narrow(s: Settings, narrow: str) -> bool:
    """Whether the experts' grouped products are in the narrow format too."""
    turbo = s.flag("primus_turbo.use_moe_fp8") and "primus_turbo.use_moe_fp8" in s.given
    names = s.value(f"quantize.grouped_mm.{'mx' if narrow == 'mxfp8' else 'float8'}.fqns")
    return turbo or bool(names)


def _recompute(s: Settings, draft: Draft, layers: int | None) -> None:
    mode, at = s.text("activation_checkpoint.mode") or "none", s.at("activation_checkpoint.mode")
    option = s.text("activation_checkpoint.selective_ac_option")
    number = as_number(option)
    if mode in ("none", "full"):
        draft.put("training.recompute", mode, at)
    elif mode != "selective":
        s.refuse("activation_checkpoint.mode", f"{shown(mode)}: not modelled yet: none, selective or full")
    elif option == "op":
        draft.put("training.recompute", "operator", at)
    elif number is not None and number >= 1 and layers is not None:
        # every so many-th layer is recomputed as a whole
        stages = s.whole("parallelism.pipeline_parallel_degree", 1) or 1
        count = -(-layers // stages) // int(number)
        draft.put("training.recompute", {"layers": count} if count else "none", at)
    elif number is None or number < 1:
        name = "activation_checkpoint.selective_ac_option"
        s.refuse(name, f"{shown(option)}: op, or every how many-th layer")
