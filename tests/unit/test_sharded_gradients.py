"""ZeRO-2 and HSDP: when gradients move, over which ranks, and what memory that leaves."""

from __future__ import annotations

import pytest
from fakes.scenarios import changes, small

from sim.ops import Collective
from sim.program import COLLECTIVE, COMPUTE, Program
from sim.step import Step

GRADIENT_PARTS = ("parameters", "gradients", "optimizer")


def step(plan: str) -> Step:
    return Step(small(*changes(plan)))


def reductions(program: Program) -> list[str]:
    return [program.tasks[i].name for i in program.order[0][COLLECTIVE] if program.tasks[i].kind == "reduce"]


def test_zero_2_reduces_after_every_micro_batch() -> None:
    one, two = step("data_sharding=zero-1"), step("data_sharding=zero-2")
    assert one.family.layout.microbatches == 4
    assert len(reductions(two.program)) == 4 * len(reductions(one.program))


def test_without_overlap_the_next_micro_batch_waits_for_the_reduction() -> None:
    program = step("data_sharding=zero-2 overlap.dp=false").program
    assert reductions(program) == ["reduce all gradients"] * 4
    second = next(
        program.tasks[i]
        for i in program.order[0][COMPUTE]
        if program.tasks[i].microbatch == 1 and program.tasks[i].kind == "forward"
    )
    assert "reduce all gradients" in [program.tasks[i].name for i in second.waits]


def test_parameters_are_gathered_once_under_zero_2() -> None:
    """As under ZeRO-1: the updated shards, layer by layer under the first forward."""
    names = [
        [t.name for t in step(f"data_sharding={kind}").program.tasks if t.kind == "gather"]
        for kind in ("zero-1", "zero-2")
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("plan", "divisors"),
    [
        ("data_sharding=ddp", (1, 1, 1)),
        ("data_sharding=zero-1", (1, 1, 8)),
        ("data_sharding=zero-2", (1, 8, 8)),
        ("data_sharding=fsdp", (8, 8, 8)),
        ("data_sharding=fsdp hsdp_replicas=2", (4, 4, 4)),
        ("data_sharding=fsdp hsdp_replicas=4 cluster.nodes=2", (4, 4, 4)),
    ],
)
def test_states_are_divided_by_what_shards_them(plan: str, divisors: tuple[int, ...]) -> None:
    whole = step("data_sharding=ddp").family.memory[0].parts_bytes
    found = step(plan).family.memory[0].parts_bytes
    for part, divisor in zip(GRADIENT_PARTS, divisors, strict=True):
        assert found[part] == pytest.approx(whole[part] / divisor, rel=1e-12), part


def test_copies_of_a_sharded_model_keep_gathers_inside_a_node() -> None:
    """Four nodes, four copies: gathers never leave a node; one shard per rank crosses them."""
    program = step("cluster.nodes=4 data_sharding=fsdp hsdp_replicas=4").program
    groups = {
        (w.op.kind, w.op.group.size, w.op.group.per_domain)
        for t in program.tasks
        for w in t.work
        if isinstance(w.op, Collective)
    }
    assert groups == {("all_gather", 8, 8), ("reduce_scatter", 8, 8), ("all_reduce", 4, 1)}


def test_a_slow_network_prefers_copies() -> None:
    """With 10 Gb/s between nodes all-reducing an eighth costs less than gathering everything twice."""
    base = ("cluster.nodes=4", "cluster.nic_bandwidth=10 Gbps", "parallelism.data_sharding=fsdp")
    one = Step(small(*base)).result.step_time_s
    copies = Step(small(*base, "parallelism.hsdp_replicas=4")).result.step_time_s
    assert copies < one


def test_fsdp_beside_tensor_parallelism_moves_a_share_of_each_layer() -> None:
    program = step("data_sharding=fsdp tp=2").program
    gather = next(t for t in program.tasks if t.name == "gather layer 0")
    (work,) = gather.work
    assert isinstance(work.op, Collective)
    model = step("").family.model
    norms = model.layer_parameters - model.layer_linear_parameters
    assert work.op.bytes == 2.0 * (model.layer_linear_parameters / 2 + norms)
    assert (work.op.group.size, work.op.group.stride) == (4, 2)
