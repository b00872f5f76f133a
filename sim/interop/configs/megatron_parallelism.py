"""Who does what, from Megatron's arguments."""

from __future__ import annotations

from sim.interop.configs.draft import Draft
from sim.interop.configs.megatron_training import virtual_stages
from sim.interop.configs.repeats import LayerPatternError, stage_layers
from sim.interop.configs.settings import Settings, as_number
from sim.scenario.errors import shown

_SHARDING = {"no_shard": "ddp", "optim": "zero-1", "optim_grads": "zero-2", "optim_grads_params": "fsdp"}
_CONTEXT = {"p2p": "ring", "a2a": "all-to-all", "all_gather": "all-gather", "allgather": "all-gather"}
_PRIMUS_SCHEDULES = {
    "1f1b": "1f1b", "1f1b-interleaved": "interleaved", "zero-bubble": "zb-h1", "zbv-formatted": "zbv",
    "v-half": "v-half", "v-min": "v-min",
}  # fmt: skip
_FOLDED = {"half": "v-half", "min": "v-min", "zb": "zbv"}


def put_megatron_parallelism(s: Settings, draft: Draft) -> None:
    """Reads degrees, schedule, sharding and overlap into ``draft``."""
    degrees = {
        "tp": "tensor_model_parallel_size",
        "cp": "context_parallel_size",
        "pp": "pipeline_model_parallel_size",
        "ep": "expert_model_parallel_size",
    }
    value = {degree: s.whole(name, 1) or 1 for degree, name in degrees.items()}
    if not s.whole("num_experts"):
        value["ep"] = 1  # without experts it divides nothing
    for degree, name in degrees.items():
        if value[degree] > 1:
            draft.put(f"parallelism.{degree}", value[degree], s.at(name))
    _expert_tensor_parallel(s, value["tp"])
    if value["tp"] > 1:
        draft.put("parallelism.sequence_parallel", s.flag("sequence_parallel"), s.at("sequence_parallel"))
        if s.flag("tp_comm_overlap"):
            draft.put("parallelism.overlap.tp", True, s.at("tp_comm_overlap"))
    if value["cp"] > 1:
        _context(s, draft)
    if value["pp"] > 1:
        _schedule(s, draft, value["pp"])
    for name in ("overlap_moe_expert_parallel_comm", "patch_moe_overlap"):
        if value["ep"] > 1 and s.flag(name):
            draft.put("parallelism.overlap.ep", True, s.at(name))
    _sharding(s, draft)


def _expert_tensor_parallel(s: Settings, tp: int) -> None:
    given = s.whole("expert_tensor_parallel_size", 1)
    if given is not None and given != tp and s.whole("num_experts"):
        s.refuse(
            "expert_tensor_parallel_size",
            f"{given}: experts divided otherwise than the rest (tensor_model_parallel_size {tp}) are not modelled yet",
        )


def _context(s: Settings, draft: Draft) -> None:
    given = s.value("cp_comm_type")
    if isinstance(given, list) and len(set(map(str, given))) == 1:
        given = given[0]
    method = _CONTEXT.get(str(given))
    if method is None:
        s.refuse("cp_comm_type", f"{shown(given)}: not modelled yet: {', '.join(_CONTEXT)}")
    draft.put("parallelism.cp_method", method, s.at("cp_comm_type"))


def _schedule(s: Settings, draft: Draft, stages: int) -> None:
    chunks = virtual_stages(s)
    layout = _layout(s, draft, stages)
    if layout is not None:
        chunks = len(layout) // stages if len(layout) > stages else None
        draft.put("parallelism.layout", list(layout), s.at("pipeline_model_parallel_layout"))
    schedule, name = _named_schedule(s)
    if schedule in (None, "interleaved"):
        schedule = "interleaved" if chunks else None
    if schedule is not None:
        draft.put("parallelism.schedule", schedule, s.at(name))
    if schedule == "interleaved":
        draft.put("parallelism.virtual_stages", chunks, s.at(_chunks_place(s)))
        if not s.flag("overlap_p2p_comm"):
            draft.put("parallelism.overlap.pp", False, s.at("overlap_p2p_comm"))
    layers, parts = s.whole("num_layers", 1) or 0, stages * (chunks or 1)
    if layout is None and layers % parts:
        draft.warn(
            f"{layers} layers over {parts} parts are uneven, which Megatron refuses without a layout: as even as they go",
            s.at("pipeline_model_parallel_size"),
        )


def _chunks_place(s: Settings) -> str:
    names = (
        "pipeline_model_parallel_layout",
        "num_virtual_stages_per_pipeline_rank",
        "num_layers_per_virtual_pipeline_stage",
    )
    return next((name for name in names if name in s), "virtual_pipeline_model_parallel_size")


def _named_schedule(s: Settings) -> tuple[str | None, str]:
    """A schedule of Primus, and the setting that says it; None for Megatron's own."""
    if s.flag("patch_primus_pipeline"):
        return s.choice("pp_algorithm", {**_PRIMUS_SCHEDULES}), "pp_algorithm"
    if s.flag("patch_zero_bubble"):
        if s.flag("zero_bubble_v_schedule"):
            return s.choice("zero_bubble_v_schedule_mem_setup", {**_FOLDED}), "zero_bubble_v_schedule"
        if s.flag("enable_zero_bubble"):
            return "zb-h1", "patch_zero_bubble"
    return None, "pipeline_model_parallel_size"


def _layout(s: Settings, draft: Draft, stages: int) -> tuple[int, ...] | None:
    """Layers by part, from a layout, a list, or the lengths of the first and last stage."""
    text, listed = s.text("pipeline_model_parallel_layout"), s.value("decoder_pipeline_manual_split_list")
    if text is not None:
        try:
            layers, ours = stage_layers(text)
        except LayerPatternError as error:
            s.refuse("pipeline_model_parallel_layout", f"{shown(text)}: {error}")
            return None
        if not ours:
            draft.warn(
                "further-token layers run on the last part here, wherever the layout puts them",
                s.at("pipeline_model_parallel_layout"),
            )
        return layers
    if listed is not None:
        numbers = listed if isinstance(listed, list) else []
        if not numbers or any(as_number(n) is None for n in numbers):
            s.refuse("decoder_pipeline_manual_split_list", f"{shown(listed)}: layers of each stage")
            return None
        return tuple(int(n) for n in numbers)
    return _uneven_ends(s, stages)


def _uneven_ends(s: Settings, stages: int) -> tuple[int, ...] | None:
    ends = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
    first, last = (s.whole(name, 1) for name in ends)
    layers = s.whole("num_layers", 1)
    if layers is None or (first is None and last is None):
        return None
    place = ends[0] if first is not None else ends[1]
    between = stages - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    if rest < 0 or between == 0 or rest % between:
        s.refuse(place, f"leaves {rest} layers for {between} stages, which they do not share equally")
        return None
    if virtual_stages(s) is not None:
        s.refuse(
            place,
            "beside virtual stages: not modelled yet: give the layers of each with --set parallelism.layout",
        )
        return None
    middle = (rest // between,) * between
    return (*([first] if first is not None else []), *middle, *([last] if last is not None else []))


def _sharding(s: Settings, draft: Draft) -> None:
    sharding, name = "ddp", "use_distributed_optimizer"
    if s.flag("use_torch_fsdp2"):
        sharding, name = "fsdp", "use_torch_fsdp2"
        copies = s.whole("data_parallel_replicate_degree", 1)
        if copies is not None and copies > 1:
            draft.put("parallelism.hsdp_replicas", copies, s.at("data_parallel_replicate_degree"))
    elif s.flag("use_megatron_fsdp"):
        name = "data_parallel_sharding_strategy"
        sharding = s.choice(name, {**_SHARDING}) or "ddp"
    elif s.flag("use_distributed_optimizer"):
        sharding = "zero-1"
    draft.put("parallelism.data_sharding", sharding, s.at(name))
    if sharding == "fsdp":
        return  # gathers and reductions run beside compute without being asked
    reduce, gather = s.flag("overlap_grad_reduce"), s.flag("overlap_param_gather")
    draft.put("parallelism.overlap.dp", reduce, s.at("overlap_grad_reduce"))
    if sharding != "ddp" and reduce != gather:
        draft.warn(
            f"overlap_param_gather: {str(gather).lower()}: parameters are gathered beside compute exactly where "
            f"gradients are reduced so ({str(reduce).lower()})",
            s.at("overlap_param_gather"),
        )
