"""Errors that teach, and the choices that facts and request decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.parallel.memory import KEYS, MemoryFacts, MemoryRequest

MAPPING: dict[str, float] = {
    "fused_gradient_accumulation": 0,
    "cross_entropy_bytes_per_logit": 6,
    "unfused_swiglu": 0,
    "vocab_padding_multiple": 128,
    "gemm_workspace_bytes": 2**25,
    "library_handle_bytes": 2**24,
    "reserved_ratio_low": 1.03,
    "reserved_ratio_high": 1.09,
    "context_bytes": 5e8,
    "communicator_bytes_first": 2**30,
    "communicator_bytes_further": 7e8,
    "master_weight_bytes": 4,
    "optimizer_moment_bytes": 4,
}


def test_mapping_becomes_facts() -> None:
    facts = MemoryFacts.from_mapping(192e9, MAPPING)
    assert facts.hbm_bytes == 192e9
    assert facts.reserved_ratio == (1.03, 1.09)
    assert facts.fused_gradient_accumulation is False
    assert set(MAPPING) == set(KEYS)


def test_every_missing_key_is_listed_with_its_meaning() -> None:
    mapping = {k: v for k, v in MAPPING.items() if k not in ("context_bytes", "master_weight_bytes")}
    with pytest.raises(ValueError, match=r"missing 'context_bytes' \(device context.*'master_weight_bytes'"):
        MemoryFacts.from_mapping(192e9, mapping)


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="'context_byte'; nearest known: 'context_bytes'"):
        MemoryFacts.from_mapping(192e9, MAPPING | {"context_byte": 1})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("context_bytes", -1.0, "zero or more"),
        ("context_bytes", float("nan"), "zero or more"),
        ("unfused_swiglu", 0.5, "one of 0, 1"),
        ("master_weight_bytes", 3, "one of 2, 4"),
        ("vocab_padding_multiple", 0, "must be 1 or more"),
        ("vocab_padding_multiple", 1.5, "whole number"),
        ("reserved_ratio_low", 1.2, "low end first"),
        ("reserved_ratio_low", 0.9, "1 or more"),
    ],
)
def test_wrong_values_are_named(key: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryFacts.from_mapping(192e9, MAPPING | {key: value})


def test_no_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="hbm_bytes"):
        MemoryFacts.from_mapping(0.0, MAPPING)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "bf61"}, "unknown value 'bf61'; known: bf16"),
        ({"attention": "flash"}, "unknown value 'flash'"),
        ({"parameter_dtype": "fp8"}, "parameter_dtype"),
        ({"gradient_dtype": "fp16"}, "gradient_dtype"),
        ({"cross_entropy": "chunked"}, "cross_entropy"),
        ({"context_exchange": "p2p"}, "context_exchange"),
        ({"lora_rank": 16}, "belong together"),
        ({"lora_rank": 16, "lora_targets": ("qkvv",)}, "known: qkv, proj"),
        ({"dropout": 1.0}, "dropout"),
        ({"sequence_length": 0}, "sequence_length"),
        ({"prefetch": -1}, "negative"),
    ],
)
def test_request_teaches(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryRequest(**({"sequence_length": 4096} | arguments))  # type: ignore[arg-type]


def test_bytes_per_parameter_of_the_usual_recipes() -> None:
    """18 by default, 16 with 16-bit gradients or fp32 parameters, 8 + 2 + 4 with 16-bit moments."""
    facts = MemoryFacts.from_mapping(192e9, MAPPING)
    lean = MemoryFacts.from_mapping(192e9, MAPPING | {"optimizer_moment_bytes": 2})
    leanest = replace(lean, master_weight_bytes=2.0)

    def total(request: MemoryRequest, of: MemoryFacts) -> float:
        return request.parameter_bytes + request.gradient_bytes + request.optimizer_bytes(of)

    assert total(MemoryRequest(1), facts) == 18.0
    assert total(MemoryRequest(1, gradient_dtype="bf16"), facts) == 16.0
    assert total(MemoryRequest(1, parameter_dtype="fp32"), facts) == 16.0
    assert total(MemoryRequest(1, precision="fp32"), facts) == 16.0
    assert MemoryRequest(1).optimizer_bytes(lean) == 8.0
    assert MemoryRequest(1).optimizer_bytes(leanest) == 6.0


def test_scenario_overrides_the_stacks_cross_entropy() -> None:
    facts = MemoryFacts.from_mapping(192e9, MAPPING)
    assert MemoryRequest(1).logit_bytes(facts) == 6.0
    assert MemoryRequest(1, cross_entropy="fused").logit_bytes(facts) == 2.0
    assert MemoryRequest(1, cross_entropy="unfused").logit_bytes(facts) == 6.0
