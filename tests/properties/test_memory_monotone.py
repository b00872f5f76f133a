"""What must hold for every transformer and layout: sums, and directions."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.parallel.activations import saved_by_op
from sim.parallel.layout import Layout, Recompute
from sim.parallel.memory import PARTS, MemoryFacts, MemoryRequest, StageMemory, memory_by_stage
from sim.workload.architecture import Architecture

STATES = ("parameters", "gradients", "optimizer")
SLACK = 1 + 1e-12  # rounding of sums in another order


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    heads = draw(st.sampled_from([16, 32, 64]))
    head_dim = draw(st.sampled_from([64, 128]))
    return Architecture(
        name="any",
        title="Any",
        layers=8,
        hidden=heads * head_dim,
        ffn=64 * draw(st.integers(16, 512)),
        heads=heads,
        kv_heads=draw(st.sampled_from([8, heads])),
        head_dim=head_dim,
        vocab=draw(st.integers(1000, 300_000)),
        mlp=draw(st.sampled_from(["swiglu", "gelu"])),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
        position=draw(st.sampled_from(["rope", "alibi", "learned", "none"])),
        max_positions=4096,
        tied_embeddings=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        linear_bias=draw(st.booleans()),
        causal=True,
        published_parameters=None,
        source="test",
    )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    pp = draw(st.sampled_from([1, 2, 4]))
    held = 8 // pp
    kind = draw(st.sampled_from(["none", "selective", "full"]))
    recomputed = 0 if kind == "none" else draw(st.integers(0, held)) if kind == "full" else held
    tp = draw(st.sampled_from([1, 2, 4]))
    return Layout(
        tp=tp,
        cp=draw(st.sampled_from([1, 2])),
        pp=pp,
        dp=draw(st.sampled_from([1, 2, 16])),
        stage_layers=(held,) * pp,
        micro_batch=draw(st.integers(1, 4)),
        microbatches=draw(st.integers(1, 16)),
        sequence_parallel=tp > 1 and draw(st.booleans()),
        data_sharding=draw(st.sampled_from(["ddp", "zero-1", "fsdp"])),
        schedule=draw(st.sampled_from(["1f1b", "gpipe"])),
        recompute=Recompute(kind, (recomputed,) * pp),
    )


@st.composite
def requests(draw: st.DrawFn) -> MemoryRequest:
    lora = draw(st.booleans())
    return MemoryRequest(
        sequence_length=draw(st.sampled_from([512, 4096, 16384])),
        precision=draw(st.sampled_from(["bf16", "fp32", "fp8"])),
        attention=draw(st.sampled_from(["fused", "unfused"])),
        parameter_dtype=draw(st.sampled_from(["bf16", "fp32"])),
        gradient_dtype=draw(st.sampled_from(["bf16", "fp32"])),
        dropout=draw(st.sampled_from([0.0, 0.1])),
        cross_entropy=draw(st.sampled_from([None, "fused", "unfused"])),
        lora_rank=16 if lora else 0,
        lora_targets=("qkv", "proj") if lora else (),
        reshard=draw(st.booleans()),
        prefetch=draw(st.integers(0, 2)),
    )


@st.composite
def facts(draw: st.DrawFn) -> MemoryFacts:
    return MemoryFacts(
        hbm_bytes=draw(st.floats(1e9, 1e12)),
        fused_gradient_accumulation=draw(st.booleans()),
        cross_entropy_bytes_per_logit=draw(st.sampled_from([2.0, 4.0, 6.0, 14.0])),
        unfused_swiglu=draw(st.booleans()),
        vocab_padding_multiple=draw(st.sampled_from([1, 128])),
        gemm_workspace_bytes=2.0**25,
        library_handle_bytes=2.0**24,
        reserved_ratio=(1.03, 1.09),
        context_bytes=5e8,
        communicator_bytes_first=1e9,
        communicator_bytes_further=7e8,
        master_weight_bytes=draw(st.sampled_from([2.0, 4.0])),
        optimizer_moment_bytes=draw(st.sampled_from([2.0, 4.0])),
    )


def states(stage: StageMemory) -> float:
    return fsum(stage.parts_bytes[name] for name in STATES)


def never_more(less: tuple[StageMemory, ...], more: tuple[StageMemory, ...]) -> None:
    for a, b in zip(less, more, strict=True):
        assert a.allocated_bytes <= b.allocated_bytes * SLACK


@given(architectures(), layouts(), requests(), facts())
def test_parts_sum_and_ranges_nest(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts
) -> None:
    stages = memory_by_stage(a, where, asked, of)
    assert [s.stage for s in stages] == list(range(where.pp))
    for stage in stages:
        assert tuple(stage.parts_bytes) == PARTS
        assert min(stage.parts_bytes.values()) >= 0.0
        assert fsum(stage.parts_bytes.values()) == pytest.approx(stage.allocated_bytes, rel=1e-9)
        assert stage.allocated_bytes <= stage.reserved_bytes[0] <= stage.reserved_bytes[1]
        assert stage.reserved_bytes[0] <= stage.device_bytes[0] <= stage.device_bytes[1]
        assert stage.peak_when
        fits = stage.margin_bytes >= 0.0
        assert (stage.verdict == "fits") == fits
        assert (stage.verdict == "does not fit") == (stage.allocated_bytes > of.hbm_bytes)


@given(architectures(), layouts(), requests(), facts(), st.sampled_from(["tp", "cp", "dp"]))
def test_more_ranks_never_hold_more_states(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts, axis: str
) -> None:
    wider = replace(where, **{axis: 2 * getattr(where, axis)})
    for few, many in zip(
        memory_by_stage(a, where, asked, of), memory_by_stage(a, wider, asked, of), strict=True
    ):
        assert states(many) <= states(few) * SLACK


@given(architectures(), layouts(), requests(), facts())
def test_more_data_parallel_ranks_never_allocate_more(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts
) -> None:
    wider = replace(where, dp=2 * where.dp)
    never_more(memory_by_stage(a, wider, asked, of), memory_by_stage(a, where, asked, of))


@given(architectures(), layouts(), requests(), facts())
def test_larger_micro_batches_and_longer_sequences_never_take_less(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts
) -> None:
    base = memory_by_stage(a, where, asked, of)
    never_more(base, memory_by_stage(a, replace(where, micro_batch=where.micro_batch + 1), asked, of))
    longer = replace(asked, sequence_length=2 * asked.sequence_length)
    never_more(base, memory_by_stage(a, where, longer, of))


@settings(max_examples=200)
@given(architectures(), layouts(), requests(), facts(), st.data())
def test_recompute_never_takes_more(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts, data: st.DataObject
) -> None:
    """The working set of a recomputed layer is what that layer would have kept anyway."""
    held = where.stage_layers[0]
    more = data.draw(st.integers(1, held))
    kinds = {
        "none": Recompute("none", (0,) * where.pp),
        "selective": Recompute("selective", (held,) * where.pp),
        "full": Recompute("full", (more,) * where.pp),
        "one layer less": Recompute("full", (more - 1,) * where.pp),
    }
    memory = {k: memory_by_stage(a, replace(where, recompute=r), asked, of) for k, r in kinds.items()}
    never_more(memory["selective"], memory["none"])
    never_more(memory["full"], memory["one layer less"])
    never_more(memory["one layer less"], memory["none"])


@given(architectures(), layouts(), requests(), facts())
def test_gpipe_never_holds_less_than_1f1b(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts
) -> None:
    one, all_at_once = replace(where, schedule="1f1b"), replace(where, schedule="gpipe")
    never_more(memory_by_stage(a, one, asked, of), memory_by_stage(a, all_at_once, asked, of))


@given(architectures(), layouts(), requests(), facts())
def test_sharding_more_never_holds_more_states(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts
) -> None:
    held = [
        [states(s) for s in memory_by_stage(a, replace(where, data_sharding=kind), asked, of)]
        for kind in ("fsdp", "zero-1", "ddp")
    ]
    for fsdp, zero, ddp in zip(*held, strict=True):
        assert fsdp <= zero * SLACK <= ddp * SLACK**2


@given(architectures(), layouts(), requests(), facts())
def test_keeping_gathered_blocks_never_takes_less(
    a: Architecture, where: Layout, asked: MemoryRequest, of: MemoryFacts
) -> None:
    shards = replace(where, data_sharding="fsdp")
    drop, keep = (memory_by_stage(a, shards, replace(asked, reshard=r), of) for r in (True, False))
    never_more(drop, keep)


@given(architectures(), requests(), facts(), st.sampled_from([2, 4, 8]))
def test_sequence_parallelism_never_keeps_more_of_any_op(
    a: Architecture, asked: MemoryRequest, of: MemoryFacts, tp: int
) -> None:
    """Of any op: the total may grow by the output layer's gather buffer, which lasts beyond the activations."""
    where = Layout(
        tp=tp, cp=1, pp=1, dp=1, stage_layers=(8,), micro_batch=1, microbatches=1, sequence_parallel=True,
        data_sharding="zero-1", schedule="1f1b", recompute=Recompute("none", (0,)),
    )  # fmt: skip
    split = saved_by_op(a, where, asked, of)
    whole = saved_by_op(a, replace(where, sequence_parallel=False), asked, of)
    assert all(split[op] <= whole[op] for op in whole)
