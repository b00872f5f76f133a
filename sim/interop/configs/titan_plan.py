"""Who does what, from TorchTitan's settings."""

from __future__ import annotations

from sim.interop.configs.draft import Draft
from sim.interop.configs.settings import Settings, as_number
from sim.scenario.errors import shown

_P = "parallelism."
_SCHEDULES = {"1F1B": "1f1b", "GPipe": "gpipe", "Interleaved1F1B": "interleaved", "ZBVZeroBubble": "zbv"}
_ROTATIONS = {
    "allgather": "all-gather",
    "alltoall": "ring",
}  # pieces go round in a ring, by an all-to-all call
_DISPATCH = {"standard": "plain", "deepep": "deduplicated", "hybridep": "deduplicated"}
_DEGREES = {
    "tp": "tensor_parallel_degree",
    "cp": "context_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "ep": "expert_parallel_degree",
}


def put_titan_plan(s: Settings, draft: Draft, layers: int | None) -> None:
    """Reads degrees, schedule and sharding; ``layers`` are the model's."""
    degree = {ours: s.whole(_P + name, 1) or 1 for ours, name in _DEGREES.items()}
    for ours, value in degree.items():
        if value > 1:
            draft.put(f"parallelism.{ours}", value, s.at(_P + _DEGREES[ours]))
    if degree["tp"] > 1 and s.flag(f"{_P}enable_async_tensor_parallel"):
        draft.put("parallelism.overlap.tp", True, s.at(f"{_P}enable_async_tensor_parallel"))
    if degree["cp"] > 1:
        name = f"{_P}context_parallel_rotate_method"
        draft.put("parallelism.cp_method", s.choice(name, {**_ROTATIONS}), s.at(name))
    if degree["pp"] > 1:
        _schedule(s, draft, degree["pp"], layers)
    if degree["ep"] > 1:
        _experts(s, draft, degree["tp"])
    _sharding(s, draft)


def _experts(s: Settings, draft: Draft, tp: int) -> None:
    backend = f"{_P}expert_parallel_comm_backend"
    dispatch = s.choice(backend, {**_DISPATCH})
    if dispatch != "plain":
        draft.put("training.moe.dispatch", dispatch, s.at(backend))
    name = f"{_P}expert_tensor_parallel_degree"
    given = s.whole(name, 1) or 1
    if given != tp:
        s.refuse(
            name,
            f"{given}: experts divided otherwise than the rest (tensor_parallel_degree {tp}) are not modelled yet",
        )


def _schedule(s: Settings, draft: Draft, stages: int, layers: int | None) -> None:
    name = f"{_P}pipeline_parallel_schedule"
    schedule = s.choice(name, {**_SCHEDULES})
    draft.put("parallelism.schedule", schedule, s.at(name))
    if schedule != "interleaved":
        return
    per_stage = s.whole(f"{_P}pipeline_parallel_layers_per_stage", 1)
    chunks = 2 if per_stage is None or layers is None else max(2, -(-layers // per_stage) // stages)
    draft.put("parallelism.virtual_stages", chunks, s.at(f"{_P}pipeline_parallel_layers_per_stage"))


def _sharding(s: Settings, draft: Draft) -> None:
    shard, place = as_number(s.value(f"{_P}data_parallel_shard_degree")), f"{_P}data_parallel_shard_degree"
    copies = s.whole(f"{_P}data_parallel_replicate_degree", 1) or 1
    if shard is None or shard != int(shard) or (shard < 1 and shard != -1):
        s.refuse(place, f"{shown(s.value(place))}: a number of ranks, or -1 for all that are left")
        return
    if shard == 1:
        draft.put("parallelism.data_sharding", "ddp", s.at(place))
        return
    draft.put("parallelism.data_sharding", "fsdp", s.at(place))
    if copies > 1:
        draft.put("parallelism.hsdp_replicas", copies, s.at(f"{_P}data_parallel_replicate_degree"))
    name = f"{_P}fsdp_reshard_after_forward"
    reshard = s.choice(name, {"default": "yes", "always": "yes", "never": "no"})
    if reshard == "no":
        draft.put("parallelism.reshard", False, s.at(name))
    name = "quantize.linear.float8.enable_fsdp_float8_all_gather"
    if s.flag(name) and draft.fields.get("training.precision", ("",))[0] == "fp8":
        draft.put("parallelism.gather_dtype", "fp8", s.at(name))
