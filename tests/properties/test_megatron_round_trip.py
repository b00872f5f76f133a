"""A scenario written as Megatron-LM arguments imports as the same scenario, whatever legal one it is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sim
from sim.interop.configs import NotExportable
from sim.scenario import Scenario, ScenarioError, loads, scenario_hash

DENSE = ("llama-3.1-8b", "llama-3-8b", "qwen2.5-7b", "qwen3-8b", "gpt-3-175b", "llama-3.2-1b")
ROUTED = (
    "mixtral-8x7b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3-mtp",
    "qwen3-30b-a3b",
    "gpt-oss-20b",
)

inline = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["mine", "a-b.c"]),
        "layers": st.sampled_from([8, 12, 24]),
        "hidden": st.sampled_from([1024, 2048]),
        "ffn": st.sampled_from([2816, 4096]),
        "heads": st.just(16),
        "vocab": st.integers(2, 200_000),
    },
    optional={
        "kv_heads": st.sampled_from([1, 2, 8, 16]),
        "head_dim": st.sampled_from([64, 128]),
        "mlp": st.sampled_from(["swiglu", "gelu"]),
        "norm": st.sampled_from(["rmsnorm", "layernorm"]),
        "qkv_bias": st.booleans(),
        "qk_norm": st.booleans(),
        "tied_embeddings": st.booleans(),
        "sinks": st.booleans(),
        "title": st.just("A title: with 'quotes' and $signs"),
        "source": st.just("`nowhere` \\ #"),
        "experts": st.fixed_dictionaries(
            {"count": st.sampled_from([8, 16]), "top_k": st.sampled_from([1, 2]), "ffn": st.just(512)},
            optional={
                "shared_ffn": st.sampled_from([0, 512]),
                "dense_layers": st.sampled_from([0, 1, 2]),
                "router_bias": st.booleans(),
                "shared_gate": st.booleans(),
            },
        ),
    },
)
windows = st.sampled_from([{}, {"window": 1024}, {"window": 1024, "full_every": 2}])
positions = st.sampled_from([{}, {"position": "learned", "max_positions": 8192}, {"position": "none"}])
models = st.one_of(
    st.sampled_from(DENSE + ROUTED),
    st.builds(lambda *parts: {k: v for part in parts for k, v in part.items()}, inline, windows, positions),
)
trainings = st.fixed_dictionaries(
    {
        "sequence_length": st.sampled_from([2048, 4096]),
        "global_batch": st.just(1152),
        "precision": st.sampled_from(["bf16", "fp16", "fp8", "mxfp8", "fp32"]),
    },
    optional={
        "micro_batch": st.sampled_from([1, 2]),
        "recompute": st.sampled_from(["none", "selective", "full", {"layers": 1}, {"layers": 2}]),
        "gradient_dtype": st.sampled_from(["fp32", "bf16"]),
        "attention": st.sampled_from(["fused", "unfused"]),
        "cross_entropy": st.sampled_from([None, "fused", "unfused"]),
        "dropout": st.sampled_from([0.0, 0.1, 0.123456789]),
        "input": st.just({"samples_per_s": 3.5, "workers": 2}),
    },
)
routing = st.fixed_dictionaries(
    {},
    optional={
        "dispatch": st.sampled_from(["plain", "deduplicated"]),
        "grouped_gemm": st.sampled_from(["pooled", "loop"]),
        "balance_factor": st.sampled_from([1.0, 1.25]),
        "capacity_factor": st.sampled_from([1.0, 1.5]),
        "group_limited": st.booleans(),
    },
)
plans = st.fixed_dictionaries(
    {
        "tp": st.sampled_from([1, 2, 4, 8]),
        "pp": st.sampled_from([1, 2, 3, 4]),
        "data_sharding": st.sampled_from(["ddp", "zero-1", "zero-2", "fsdp"]),
    },
    optional={
        "cp": st.sampled_from([1, 2]),
        "ep": st.sampled_from([1, 2, 8]),
        "sequence_parallel": st.booleans(),
        "stages": st.sampled_from(["1f1b", "interleaved"]),
        "overlap": st.dictionaries(st.sampled_from(["dp", "tp", "ep", "pp"]), st.booleans()),
        "cp_method": st.sampled_from(["ring", "all-gather", "all-to-all"]),
    },
)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=50)
clusters = st.sampled_from(
    [
        {"node": "mi300x-8x400g", "nodes": 6, "stack": "primus-2026-mi300x"},
        {"node": "mi355x-8x400g", "nodes": 12},
        {
            "node": "mi300x-8x400g",
            "nodes": 4,
            "power_cap": "600 W",
            "fabric": {"kind": "rail-clos", "radix": 64},
        },
        {"node": "h100-8x400g", "nodes": 1, "gpus": 4},
    ]
)


def scenario(document: dict[str, Any], routed: dict[str, Any], name: str) -> Scenario:
    """The scenario, after taking away every field that a rule forbids beside the others."""
    plan, training = dict(document["parallelism"]), dict(document["training"])
    schedule = plan.pop("stages", None)
    if plan["pp"] > 1 and schedule:
        plan |= {"schedule": schedule} | ({"virtual_stages": 2} if schedule == "interleaved" else {})
    for field, degree in (("cp_method", "cp"), ("sequence_parallel", "tp")):
        if plan.get(degree, 1) == 1:
            plan.pop(field, None)
    plan["overlap"] = dict(plan.get("overlap", {}))
    training["moe"] = dict(routed)
    draft = {**document, "training": training, "parallelism": plan, "name": name}
    for _ in range(20):
        _without_effect(draft)
        try:
            return loads(json.dumps(draft))
        except ScenarioError as error:
            for problem in error.problems:
                _repair(draft, problem.path)
    assume(False)
    raise AssertionError


def _without_effect(draft: dict[str, Any]) -> None:
    """What changes nothing is no argument: routing inside one rank, overlap of what does not happen."""
    plan, moe = draft["parallelism"], draft["training"].get("moe", {})
    if plan.get("ep", 1) == 1:
        for field in ("dispatch", "balance_factor", "group_limited"):
            moe.pop(field, None)
    kept = {k: v for k, v in plan["overlap"].items() if plan.get(k, 1) > 1 or k == "dp"}
    if plan.get("data_sharding") == "fsdp":
        kept.pop("dp", None)
    plan["overlap"] = kept


_INSTEAD = {
    "model": "llama-3.1-8b",
    "training.precision": "bf16",
    "cluster": {"node": "mi300x-8x400g", "nodes": 6},
}


def _repair(draft: dict[str, Any], path: str) -> None:
    if path.startswith("training.global_batch"):
        draft["training"].pop("micro_batch", None)
        for field in ("schedule", "virtual_stages", "pp"):
            draft["parallelism"].pop(field, None)
        return
    section = path.partition(".")[0]
    for whole, other in _INSTEAD.items():
        if path == whole or (section == whole and section in ("model", "cluster")):
            *outer, last = whole.split(".")
            (draft[outer[0]] if outer else draft)[last] = other
            return
    *outer, last = path.split(".")
    for step in outer:
        draft = draft.get(step, {}) if isinstance(draft, dict) else {}
    if isinstance(draft, dict):
        draft.pop(last, None)


documents = st.fixed_dictionaries(
    {"model": models, "cluster": clusters, "training": trainings, "parallelism": plans}
)


def check(wanted: Scenario) -> None:
    text = sim.export_megatron(wanted).text
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.sh"
        path.write_text(text, encoding="utf-8")
        found = sim.import_scenario("megatron", path).scenario
    assert found == wanted
    assert scenario_hash(found) == scenario_hash(wanted)


@settings(deadline=None, max_examples=20)
@given(documents, routing, texts)
def test_what_is_exported_imports_as_itself(
    document: dict[str, Any], routed: dict[str, Any], name: str
) -> None:
    check(scenario(document, routed, name))


@pytest.mark.slow
@settings(deadline=None, max_examples=250)
@given(documents, routing, texts)
def test_many_that_are_exported_import_as_themselves(
    document: dict[str, Any], routed: dict[str, Any], name: str
) -> None:
    check(scenario(document, routed, name))


BASE = {
    "model": "llama-3.1-8b",
    "cluster": {"node": "mi300x-8x400g", "nodes": 4},
    "training": {"sequence_length": 4096, "global_batch": 512, "precision": "bf16"},
}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("parallelism.prefetch=2", "parallelism.prefetch"),
        ("parallelism.gather_dtype=fp8", "parallelism.gather_dtype"),
        ("training.recompute=operator", "training.recompute.kind"),
        ("training.parameter_dtype=fp32", "training.parameter_dtype"),
        ("training.lora={rank: 16}", "training.lora"),
        (
            "model={layers: 8, hidden: 512, ffn: 2048, heads: 8, vocab: 100, position: alibi}",
            "model.position",
        ),
        ("model={layers: 8, hidden: 512, ffn: 2048, heads: 8, vocab: 100, causal: false}", "model.causal"),
    ],
)
def test_what_megatron_cannot_do_is_refused(change: str, field: str) -> None:
    text = json.dumps(BASE | {"parallelism": {"data_sharding": "fsdp"}})
    wanted = loads(
        text, overrides=(change, *(("parallelism.data_sharding=zero-1",) if "lora" in change else ()))
    )
    with pytest.raises(NotExportable) as caught:
        sim.export_megatron(wanted)
    assert any(error.startswith(f"{field}: ") for error in caught.value.errors)


@pytest.mark.parametrize("schedule", ["gpipe", "zb-h1", "zbv", "v-half", "v-min"])
def test_schedules_that_megatron_lacks(schedule: str) -> None:
    wanted = loads(json.dumps(BASE | {"parallelism": {"pp": 4, "schedule": schedule}}))
    with pytest.raises(NotExportable, match="parallelism\\.schedule"):
        sim.export_megatron(wanted)


def test_a_remark_may_not_give_what_arguments_say(tmp_path: Path) -> None:
    text = sim.export_megatron(loads(json.dumps(BASE))).text
    path = tmp_path / "train.sh"
    for remark in (
        "parallelism.tp = 4",
        'model = "qwen3-8b"',
        'cluster.stack = "./x.yaml"',
        'parallelism.layout = "auto"',
    ):
        path.write_text(
            text.replace("#: model", f"#: {remark}\n#: model", 1)
            if "model =" not in remark
            else text.replace('#: model = "llama-3.1-8b"', f"#: {remark}")
        )
        with pytest.raises(ScenarioError, match=str(path)):
            sim.import_scenario("megatron", path)
