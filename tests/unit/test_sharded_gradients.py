"""ZeRO-2, FSDP and HSDP, alone and beside a pipeline: when gradients move, over which ranks, and what memory that leaves."""

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


# -- beside a pipeline -----------------------------------------------------------------------------


def collectives(program: Program, role: int, kind: str) -> list[str]:
    found = [program.tasks[i] for i in program.order[role].get(COLLECTIVE, ())]
    return [task.name for task in found if task.kind == kind]


def test_a_stage_gathers_once_and_reduces_behind_its_last_backward() -> None:
    """What is kept needs no second gather; m = 8 micro-batches of 4 replicas, two layers on each stage."""
    program = step("data_sharding=fsdp pp=2").program
    assert collectives(program, 0, "gather") == ["gather root", "gather layer 0", "gather layer 1"]
    assert collectives(program, 1, "reduce") == ["reduce layer 3", "reduce layer 2", "reduce root"]
    last = max(task.microbatch for task in program.tasks)
    assert {task.microbatch for task in program.tasks if task.kind == "reduce"} == {last}


def test_resharding_gathers_every_layer_for_every_pass() -> None:
    program = step("data_sharding=fsdp pp=2 reshard=true gradient_sync=every").program
    assert collectives(program, 1, "gather").count("gather layer 2") == 2 * 8
    assert collectives(program, 1, "reduce").count("reduce layer 2") == 8
    assert collectives(program, 1, "gather").count("gather root") == 1  # other micro-batches still need it


def test_a_pass_gathers_its_first_layers_once_the_pass_before_is_over() -> None:
    """On the last stage of 1F1B the backward of a micro-batch comes right before the next forward."""
    program = step("data_sharding=fsdp pp=2 reshard=true").program
    gather = next(
        t for t in program.tasks if t.name == "gather layer 2" and t.microbatch == 1 and t.kind == "gather"
    )
    assert [(program.tasks[w].name, program.tasks[w].microbatch) for w in gather.waits] == [
        ("backward layer 2", 0)
    ]


def test_weight_gradients_run_apart_need_no_parameters() -> None:
    program = step("data_sharding=fsdp pp=2 schedule=zb-h1 reshard=true gradient_sync=every").program
    for task in program.tasks:
        needs = {program.tasks[w].kind for w in task.waits}
        assert "gather" not in needs or task.kind != "weight"
        if task.kind == "reduce" and "layer" in task.name:
            assert needs == {"weight"}


def test_zero_2_reduces_after_every_micro_batch_of_a_stage() -> None:
    one, two = (step(f"data_sharding={kind} pp=2").program for kind in ("zero-1", "zero-2"))
    for role in (0, 1):
        assert collectives(two, role, "reduce") == 8 * collectives(one, role, "reduce")
        assert collectives(two, role, "gather") == collectives(one, role, "gather")


def test_without_overlap_a_stage_waits_for_its_reductions() -> None:
    program = step("data_sharding=zero-2 pp=2 overlap.dp=false").program
    tasks = [program.tasks[i] for i in program.order[1][COMPUTE]]
    backward = next(i for i, t in enumerate(tasks) if t.kind == "backward")
    assert "reduce all gradients" in [program.tasks[w].name for w in tasks[backward + 1].waits]


@pytest.mark.parametrize(
    ("plan", "divisors"),
    [
        ("data_sharding=zero-2 pp=2", (1, 4, 4)),
        ("data_sharding=fsdp pp=2 gradient_sync=every", (4, 4, 4)),
        ("data_sharding=fsdp pp=2", (4, 1, 4)),  # whole gradients are added up until the last micro-batch
        ("data_sharding=fsdp pp=2 hsdp_replicas=2 gradient_sync=every", (2, 2, 2)),
    ],
)
def test_states_of_a_stage_are_divided_by_what_shards_them(plan: str, divisors: tuple[int, ...]) -> None:
    whole = step("data_sharding=ddp pp=2").family.memory
    found = step(plan).family.memory
    for stage in (0, 1):
        for part, divisor in zip(GRADIENT_PARTS, divisors, strict=True):
            expected = whole[stage].parts_bytes[part] / divisor
            assert found[stage].parts_bytes[part] == pytest.approx(expected, rel=1e-12), part


def test_kept_parameters_of_a_stage_are_those_of_its_layers() -> None:
    kept, freed = (step(f"data_sharding=fsdp pp=2 reshard={r}").family for r in ("false", "true"))
    for stage in (0, 1):
        one, two = (f.memory[stage].parts_bytes["gathered_parameters"] for f in (kept, freed))
        assert one >= two
    layers = step("data_sharding=fsdp pp=2 reshard=true prefetch=0").family.memory[0].parts_bytes
    per_layer = 2.0 * kept.model.layer_parameters
    assert kept.memory[0].parts_bytes["gathered_parameters"] == layers["gathered_parameters"] + per_layer


def test_gathering_for_every_pass_takes_longer_on_a_slow_network() -> None:
    slow = ("cluster.nodes=4", "cluster.nic_bandwidth=10 Gbps", "parallelism={pp: 2, data_sharding: fsdp}")
    keep = Step(small(*slow)).result.step_time_s
    again = Step(small(*slow, "parallelism.reshard=true")).result.step_time_s
    every = Step(
        small(*slow, "parallelism.reshard=true", "parallelism.gradient_sync=every")
    ).result.step_time_s
    assert keep < again < every


def test_shards_of_a_tied_embedding_are_added_up() -> None:
    """Sharded gradients of the two copies meet shard by shard, and only once they are reduced."""
    program = step("data_sharding=fsdp pp=2 model.tied_embeddings=true").program
    tie = next(t for t in program.tasks if t.name == "reduce tied embedding")
    (work,) = tie.work
    assert isinstance(work.op, Collective)
    assert work.op.bytes == 4.0 * 32000 * 1024 / 4
    assert [program.tasks[w].name for w in tie.waits] == ["reduce root"]
