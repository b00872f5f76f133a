"""A scenario written out loads to an equal one, whatever was given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.scenario import loads, scenario_hash, to_yaml

rates = st.floats(min_value=1e9, max_value=1e14).map(lambda value: f"{value!r} B/s")
texts = st.text(
    st.characters(
        codec="utf-8",
        exclude_categories=["Cs", "Cc"],
        exclude_characters="\u2028\u2029\x85\ufeff\ufffe\uffff",
    ),
    min_size=1,
)

clusters = st.fixed_dictionaries(
    {"node": st.just("mi300x-8x400g"), "nodes": st.sampled_from([1, 2, 64])},
    optional={
        "power_cap": st.floats(100, 750).map(lambda value: f"{value!r} W"),
        "nic": st.sampled_from(["connectx-7", "pollara-400"]),
        "nics": st.sampled_from([1, 2, 4, 8, 16]),  # shares that a graph can lay out
        "nic_bandwidth": rates,
        "gpu": st.fixed_dictionaries(
            {},
            optional={
                "hbm": st.floats(1e9, 1e13).map(lambda value: f"{value!r} B"),
                "hbm_bandwidth": rates,
                "compute_units": st.integers(1, 1000),
                "peak_clock": st.floats(1e8, 1e10).map(lambda value: f"{value!r} Hz"),
            },
        ),
        "background_load": st.fixed_dictionaries({}, optional={"leaf_spine": st.floats(0, 0.99)}),
        "scale_up": st.fixed_dictionaries(
            {},
            optional={
                "link_bandwidth": rates,
                "latency": st.floats(1e-8, 1e-2).map(lambda value: f"{value!r} s"),
            },
        ),
        "fabric": st.sampled_from(
            [
                {"kind": "clos", "radix": 64, "routing": "ecmp", "queue_pairs": 4},
                {"kind": "rail-clos", "radix": 64, "tiers": 3, "oversubscription": [1, 1, 2]},
                {},
            ]
        ),
    },
)
trainings = st.fixed_dictionaries(
    {
        "sequence_length": st.sampled_from([512, 8192, 131072]),
        "global_batch": st.sampled_from([1024, 2048]),
        "precision": st.sampled_from(["bf16", "fp8"]),
    },
    optional={
        "micro_batch": st.sampled_from([1, 2]),
        "recompute": st.sampled_from(["none", "selective", "full", {"layers": 3}]),
        "attention": st.sampled_from(["fused", "unfused"]),
        "gradient_dtype": st.sampled_from(["fp32", "bf16"]),
        "parameter_dtype": st.sampled_from(["fp32", "bf16"]),
        "lora": st.sampled_from([None, {"rank": 16}, {"rank": 8, "targets": ["proj"]}]),
        "cross_entropy": st.sampled_from([None, "fused", "unfused"]),
        "dropout": st.floats(0, 0.99),
        "input": st.sampled_from(
            [
                {"samples_per_s": 3.5, "workers": 0},
                {"bytes_per_sample": "912 B", "host_bandwidth": "5.4 GB/s"},
            ]
        ),
    },
)
plans = st.sampled_from(
    [
        {},
        {"tp": 8, "sequence_parallel": False},
        {"tp": 2, "pp": 4, "schedule": "gpipe", "overlap": {"tp": True}},
        {"pp": 2, "layout": [15, 17], "data_sharding": "ddp"},
        {"data_sharding": "fsdp", "reshard": False, "prefetch": 2},
        {"data_sharding": "fsdp", "tp": 2, "hsdp_replicas": 2},
        {"data_sharding": "zero-2", "tp": 4},
    ]
)
models = st.sampled_from(
    [
        "llama-3.1-8b",
        {"base": "llama-3.1-8b", "ffn": 8192},
        {"layers": 32, "hidden": 1024, "ffn": 4096, "heads": 16, "vocab": 1000},
    ]
)
documents = st.fixed_dictionaries(
    {"model": models, "cluster": clusters, "training": trainings, "parallelism": plans},
    optional={
        "schema": st.just(1),
        "name": texts.filter(lambda text: len(text) <= 200),
        "notes": texts,
        "seed": st.integers(0, 2**32 - 1),
        "metrics": st.sampled_from([{"mfu_convention": "palm"}, {}]),
    },
)


@settings(deadline=None, max_examples=150)
@given(documents)
def test_a_written_scenario_loads_to_an_equal_one(document: dict[str, Any]) -> None:
    # JSON is YAML with all text in quotes: PyYAML leaves 1e100 bare, which YAML 1.2 reads as a number
    scenario = loads(json.dumps(document, ensure_ascii=False))
    again = loads(to_yaml(scenario))
    assert again == scenario
    assert scenario_hash(again) == scenario_hash(scenario)
    assert to_yaml(again) == to_yaml(scenario)
    assert again.warnings == scenario.warnings


@pytest.mark.parametrize("name", ["0E0", "1e100", "0x1F", "true", "~", "no", "1:30", "2024-01-01", "9" * 80])
def test_text_that_looks_like_something_else_stays_text(name: str) -> None:
    document = {
        "name": name,
        "model": "llama-3.1-8b",
        "cluster": {"node": "mi300x-8x400g", "nodes": 1},
        "training": {"sequence_length": 512, "global_batch": 8, "precision": "bf16"},
    }
    scenario = loads(json.dumps(document))
    assert loads(to_yaml(scenario)).name == name
