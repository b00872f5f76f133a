"""The order of a plan's tasks: what waits for what, and what runs beside what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakes.scenarios import changes, small

from sim.ops import Attention, Collective, Gemm, Launches, Optimizer, TokenExchange
from sim.parallel.schedule import BACKWARD, FORWARD
from sim.program import COLLECTIVE, COMPUTE, SEND, Program, Task
from sim.step import Step

LAYERS = 4  # of the small model


def plan(text: str) -> Program:
    return Step(small(*changes(text))).program


def stream(program: Program, kind: str, role: int = 0) -> list[Task]:
    return [program.tasks[i] for i in program.order[role].get(kind, ())]


def names(program: Program, kind: str, role: int = 0, microbatch: int | None = None) -> list[str]:
    return [t.name for t in stream(program, kind, role) if microbatch in (None, t.microbatch)]


def waits(program: Program, task: Task) -> list[str]:
    return [program.tasks[i].name for i in task.waits]


def the(program: Program, stream_: str, name: str, microbatch: int = 0, *, last: bool = False) -> Task:
    found = [t for t in stream(program, stream_) if t.name == name and t.microbatch == microbatch]
    return found[-1 if last else 0]


# -- fully sharded ---------------------------------------------------------------------------------


def test_fsdp_gathers_one_layer_ahead_and_reduces_one_behind() -> None:
    program = plan("data_sharding=fsdp")
    assert names(program, COLLECTIVE, microbatch=0) == [
        "gather root", "gather layer 0", "gather layer 1", "gather layer 2", "gather layer 3",
        "gather layer 3", "gather layer 2", "gather layer 1", "reduce layer 3", "gather layer 0",
        "reduce layer 2", "reduce layer 1", "reduce layer 0", "reduce root",
    ]  # fmt: skip
    assert names(program, COMPUTE, microbatch=0)[:6] == [
        "forward embedding", "forward layer 0", "forward layer 1", "forward layer 2", "forward layer 3",
        "forward head",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("prefetch", "expected"),
    [
        (0, ["forward embedding", "forward layer 0", "forward layer 1", "forward layer 2"]),
        (1, ["gather root", "forward embedding", "forward layer 0", "forward layer 1"]),
        (2, ["gather root", "gather root", "forward embedding", "forward layer 0"]),
    ],
)
def test_a_gather_starts_prefetch_layers_before_its_consumer(prefetch: int, expected: list[str]) -> None:
    program = plan(f"data_sharding=fsdp prefetch={prefetch}")
    gathers = [the(program, COLLECTIVE, f"gather layer {i}") for i in range(LAYERS)]
    assert [waits(program, g) for g in gathers] == [[name] for name in expected]
    for i, gather in enumerate(gathers):  # and each layer waits for its own
        assert gather.id in the(program, COMPUTE, f"forward layer {i}").waits


def test_backward_gathers_start_when_the_forward_ends() -> None:
    program = plan("data_sharding=fsdp")
    found = [the(program, COLLECTIVE, f"gather layer {i}", last=True) for i in (3, 2, 1, 0)]
    assert [waits(program, g) for g in found] == [
        ["forward head"], ["backward head"], ["backward layer 3"], ["backward layer 2"],
    ]  # fmt: skip
    assert found[0].id in the(program, COMPUTE, "backward layer 3").waits


def test_kept_parameters_are_gathered_once() -> None:
    program = plan("data_sharding=fsdp reshard=false")
    assert names(program, COLLECTIVE, microbatch=0).count("gather layer 2") == 1
    assert names(program, COLLECTIVE, microbatch=0).count("reduce layer 2") == 1


def test_a_window_holds_one_layer_and_what_runs_beside_it() -> None:
    program = plan("data_sharding=fsdp")
    window = the(program, COMPUTE, "backward layer 1").window
    beside = sorted(t.name for t in program.tasks if t.window == window)
    assert beside == ["backward layer 1", "gather layer 0", "reduce layer 2"]


def test_the_next_microbatch_gathers_its_root_after_the_backward_before() -> None:
    program = plan("data_sharding=fsdp")
    assert waits(program, the(program, COLLECTIVE, "gather root", 1)) == ["backward embedding"]
    assert program.tasks[the(program, COLLECTIVE, "gather root", 1).waits[0]].microbatch == 0


def test_without_overlap_fsdp_waits_for_every_exchange() -> None:
    program = plan("data_sharding=fsdp overlap.dp=false")
    assert all(task.window is None for task in program.tasks)
    assert waits(program, the(program, COMPUTE, "backward layer 2")) == ["gather layer 2", "reduce layer 3"]


def test_one_gpu_exchanges_nothing() -> None:
    for sharding in ("ddp", "zero-1", "fsdp"):
        program = plan(f"data_sharding={sharding} cluster.gpus=1")
        assert not stream(program, COLLECTIVE)
        assert not any(isinstance(w.op, Collective) for t in program.tasks for w in t.work)


# -- replicated ------------------------------------------------------------------------------------


def test_zero_1_gathers_ahead_of_the_first_forward_and_scatters_in_the_last_backward() -> None:
    program = plan("")
    order = ["embedding", *(f"layer {i}" for i in range(LAYERS)), "head"]
    assert names(program, COLLECTIVE) == [f"gather {p}" for p in order] + [
        f"reduce {p}" for p in reversed(order)
    ]
    last = max(t.microbatch for t in program.tasks)
    for piece in order:
        assert (
            the(program, COLLECTIVE, f"gather {piece}").id in the(program, COMPUTE, f"forward {piece}").waits
        )
        assert not the(program, COMPUTE, f"forward {piece}", 1).waits
        reduce = next(t for t in stream(program, COLLECTIVE) if t.name == f"reduce {piece}")
        assert [program.tasks[i] for i in reduce.waits] == [the(program, COMPUTE, f"backward {piece}", last)]


def test_zero_1_windows_leave_out_what_nothing_can_hide() -> None:
    """The first gather has no compute beside it, nor has the last reduction."""
    program = plan("")
    last = max(t.microbatch for t in program.tasks)
    assert the(program, COLLECTIVE, "gather embedding").window is None
    assert the(program, COMPUTE, "forward head").window is None
    assert next(t for t in program.tasks if t.name == "reduce embedding").window is None
    assert the(program, COMPUTE, "backward head", last).window is None
    windows = {t.window for t in program.tasks}
    assert windows == {None, "gather/0", "reduce/0"}
    assert {t.microbatch for t in program.tasks if t.window == "gather/0" and t.stream == COMPUTE} == {0}
    assert {t.microbatch for t in program.tasks if t.window == "reduce/0" and t.stream == COMPUTE} == {last}


def test_without_overlap_zero_1_reduces_everything_then_steps_then_gathers() -> None:
    program = plan("overlap.dp=false")
    assert names(program, COLLECTIVE) == ["reduce all gradients", "gather all parameters"]
    reduce, gather = stream(program, COLLECTIVE)
    assert waits(program, reduce) == ["backward embedding"]
    assert waits(program, the(program, COMPUTE, "optimizer step")) == [
        "backward embedding",
        "reduce all gradients",
    ]
    assert waits(program, gather) == ["optimizer step"]
    assert waits(program, the(program, COMPUTE, "host")) == ["gather all parameters"]


@pytest.mark.parametrize(
    ("sharding", "kind", "share"), [("ddp", "all_reduce", 1), ("zero-1", "reduce_scatter", 8)]
)
def test_replicas_step_everything_and_shards_their_part(sharding: str, kind: str, share: int) -> None:
    step = Step(small(*changes(f"data_sharding={sharding}")))
    op = the(step.program, COMPUTE, "optimizer step").work[0].op
    assert isinstance(op, Optimizer)
    assert op.parameters == pytest.approx(step.family.model.parameters / share)
    kinds = {
        w.op.kind
        for t in step.program.tasks
        if t.kind == "reduce"
        for w in t.work
        if isinstance(w.op, Collective)
    }
    assert kinds == {kind}


def test_waiting_for_exchanges_is_data_parallel_and_for_stages_bubble() -> None:
    for text in ("", "data_sharding=fsdp", "data_sharding=ddp overlap.dp=false", "pp=4"):
        for task in plan(text).tasks:
            assert task.wait_cause == ("data_parallel" if task.stream == COLLECTIVE else "bubble")


# -- pipeline --------------------------------------------------------------------------------------


def test_every_optimizer_waits_for_the_gradients_of_all_stages() -> None:
    """The gradient norm is global: a barrier over stages."""
    program = plan("pp=4")
    for role in range(4):
        barrier = [program.tasks[i] for i in stream(program, COMPUTE, role)[-2].waits]
        assert {t.role for t in barrier} == {0, 1, 2, 3}
        assert {t.kind for t in barrier} == {"backward", "reduce"}


def test_stages_run_whole_except_where_gradients_and_parameters_travel() -> None:
    program = plan("pp=2 training.global_batch=32")
    first = names(program, COMPUTE, role=0, microbatch=0)
    assert first[:3] == ["forward embedding", "forward layer 0", "forward layer 1"]
    assert names(program, COMPUTE, role=0, microbatch=1) == ["forward layers 0-1", "backward layers 0-1"]
    assert names(program, COMPUTE, role=1, microbatch=7)[:4] == [
        "forward layers 2-3", "backward head", "backward layer 3", "backward layer 2",
    ]  # fmt: skip


def test_a_whole_stage_does_what_its_pieces_do() -> None:
    program = plan("pp=2")

    def flops(microbatch: int, kind: str) -> float:
        tasks = [t for t in stream(program, COMPUTE, 1) if t.microbatch == microbatch and t.kind == kind]
        return sum(w.count * w.op.flops for t in tasks for w in t.work)

    for kind in (FORWARD, BACKWARD):
        assert flops(0, kind) == pytest.approx(flops(3, kind)) == pytest.approx(flops(7, kind))


def test_blocking_sends_hold_up_the_next_pass_of_their_stage() -> None:
    free, held = plan("pp=2 overlap.dp=false"), plan("pp=2 overlap.dp=false overlap.pp=false")

    def sends_waited_for(program: Program) -> int:
        own = [
            t
            for t in stream(program, COMPUTE, 0)
            if any(program.tasks[w].stream == SEND and program.tasks[w].role == 0 for w in t.waits)
        ]
        return len(own)

    assert (sends_waited_for(free), sends_waited_for(held)) == (0, 8)


@pytest.mark.parametrize(
    ("text", "ties"), [("pp=2", 2), ("pp=4", 2), ("", 0), ("pp=2 training.lora={rank:8}", 0)]
)
def test_a_tied_embedding_is_reduced_between_first_and_last_stage(text: str, ties: int) -> None:
    step = Step(small(*changes(f"model.tied_embeddings=true {text}")))
    found = [t for t in step.program.tasks if t.name == "reduce tied embedding"]
    assert len(found) == ties
    for task in found:
        op = task.work[0].op
        assert isinstance(op, Collective)
        assert (op.kind, op.bytes) == ("all_reduce", 4.0 * 32000 * 1024)
        assert task.role in (0, step.family.layout.pp - 1)
        assert task.id in step.program.tasks[step.program.order[0][COMPUTE][-2]].waits


# -- layers ----------------------------------------------------------------------------------------


def layer_work(
    text: str, name: str, keep: Callable[[object], bool], cause: str | None = None
) -> list[object]:
    step = Step(small(*changes(text)))
    task = the(step.program, COMPUTE, name)
    return [w.op for w in task.work if keep(w.op) and cause in (None, w.cause)]


def test_a_layer_is_four_products_forward_and_eight_backward() -> None:
    def gemm(op: object) -> bool:
        return isinstance(op, Gemm)

    tokens = 2048
    assert layer_work("", "forward layer 1", gemm) == [
        Gemm(tokens, 2048, 1024, "bf16"),  # 16 query, 8 key and 8 value heads of 64
        Gemm(tokens, 1024, 1024, "bf16"),
        Gemm(tokens, 5632, 1024, "bf16"),  # gate and up side by side
        Gemm(tokens, 1024, 2816, "bf16"),
    ]
    assert len(layer_work("", "backward layer 1", gemm)) == 8
    frozen = "training.lora={rank:16,targets:[qkv]}"
    assert len(layer_work(frozen, "backward layer 1", gemm)) == 4 + 4  # no weight gradients of the base
    assert layer_work("tp=2", "forward layer 1", gemm)[0] == Gemm(tokens, 1024, 1024, "bf16")
    assert layer_work("tp=2", "forward layer 1", gemm)[3] == Gemm(tokens, 1024, 1408, "bf16")


@pytest.mark.parametrize(
    ("recompute", "again"),
    [("none", 0), ("selective", 1), ("full", 8), ("{layers:1}", 0), ("{layers:2}", 8)],
)
def test_recomputation_repeats_what_it_should_of_layer_1(recompute: str, again: int) -> None:
    """Four products, attention, streaming (rotary embedding apart) and launches, of the first N layers of the stage."""
    found = layer_work(f"training.recompute={recompute}", "backward layer 1", lambda op: True, "recompute")
    assert len(found) == again
    if recompute == "selective":
        assert isinstance(found[0], Attention)


def test_launches_double_in_the_backward() -> None:
    def launches(op: object) -> bool:
        return isinstance(op, Launches)

    assert layer_work("", "forward layer 1", launches) == [Launches(14)]
    assert layer_work("", "backward layer 1", launches) == [Launches(28)]


# -- parts of the model ----------------------------------------------------------------------------


def test_each_part_meets_its_gathers_and_gives_up_its_gradients_on_its_own() -> None:
    """Stage 0 holds layers 0 and 2: the later part's gradients are complete first, and leave first."""
    program = plan("pp=2 schedule=interleaved virtual_stages=2")
    assert names(program, COLLECTIVE) == [
        "gather embedding", "gather layer 0", "gather layer 2", "reduce layer 2", "reduce layer 0",
        "reduce embedding",
    ]  # fmt: skip
    for task in stream(program, COLLECTIVE):
        if task.name.startswith("reduce"):
            assert waits(program, task) == [task.name.replace("reduce", "backward")]
    last = max(t.microbatch for t in program.tasks)
    later = the(program, COMPUTE, "backward layer 2", last)
    assert stream(program, COMPUTE).index(later) < stream(program, COMPUTE).index(
        the(program, COMPUTE, "backward layer 0", last)
    )


def test_an_interleaved_model_goes_round_from_the_last_stage_to_the_first() -> None:
    program = plan("pp=2 schedule=interleaved virtual_stages=2")
    assert sorted({(t.role, t.name, t.peer) for t in program.tasks if t.stream == SEND}) == [
        (0, "send backward to stage 1", 1), (0, "send forward to stage 1", 1),
        (1, "send backward to stage 0", 0), (1, "send forward to stage 0", 0),
    ]  # fmt: skip
    assert len([t for t in program.tasks if t.stream == SEND and t.role == 1 and t.microbatch == 0]) == 3


def test_a_folded_model_turns_without_a_message() -> None:
    program = plan("pp=2 schedule=zbv")
    (turn,) = (t for t in program.tasks if (t.name, t.microbatch) == ("forward layers 2-2", 1))
    assert (turn.role, turn.waits) == (1, ())  # layer 1 lies on stage 1 too
    assert {t.role for t in program.tasks if "embedding" in t.name or "head" in t.name} == {0}


def test_weight_gradients_run_apart_and_are_what_the_exchange_waits_for() -> None:
    program = plan("pp=2 schedule=zb-h1")
    last = max(t.microbatch for t in program.tasks)
    weight = the(program, COMPUTE, "weight layer 0", last)
    assert any(isinstance(w.op, Gemm) for w in weight.work)
    assert not any(isinstance(w.op, Attention) for w in weight.work)
    reduce = next(t for t in stream(program, COLLECTIVE) if t.name == "reduce layer 0")
    assert reduce.waits == (weight.id,)
    sends = [t for t in stream(program, SEND, 1) if t.name.startswith("send backward")]
    assert {w for t in sends for w in waits(program, t)} == {"backward layers 2-3"}  # not the weight gradient


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_split_backwards_hold_the_same_work_as_whole_ones(schedule: str) -> None:
    program = plan(f"pp=2 schedule={schedule} training.recompute=full")
    kinds = {"backward", "weight"}
    flops = sum(w.count * w.op.flops for t in program.tasks if t.kind in kinds for w in t.work)
    whole = plan("pp=2 training.recompute=full")
    expected = sum(w.count * w.op.flops for t in whole.tasks if t.kind in kinds for w in t.work)
    assert flops == pytest.approx(expected, rel=1e-12)


# -- both ways at once -----------------------------------------------------------------------------

EXPERTS = (
    "model={name: m, layers: 4, hidden: 1024, ffn: 2816, heads: 16, kv_heads: 8, vocab: 32000, "
    "experts: {count: 16, top_k: 4, ffn: 704}}"
)


def two_ways(schedule: str) -> Step:
    return Step(small(EXPERTS, "parallelism.pp=2", "parallelism.ep=4", f"parallelism.schedule={schedule}"))


@pytest.mark.parametrize("schedule", ["dualpipe", "dualpipe-v"])
def test_tokens_hide_where_a_forward_runs_beside_a_backward(schedule: str) -> None:
    program = two_ways(schedule).program
    beside = {
        task.kind: {w.op.beside for w in task.work if isinstance(w.op, TokenExchange)}
        for task in program.tasks
        if task.stream == COMPUTE
    }
    assert beside["forward and backward"] == {"compute"}
    assert beside["forward"] == beside["backward"] == {""}


def test_hiding_helps_and_costs() -> None:
    """Less than without any hiding, more than if all exchanges were hidden everywhere."""
    step = two_ways("dualpipe-v")
    exposed = step.result.breakdown_s["expert_parallel"]
    plain = two_ways("zbv").result.breakdown_s["expert_parallel"]
    assert 0.0 < exposed < 0.7 * plain
    assert step.result.breakdown_s["interference"] > 0.0


def test_both_copies_of_a_layer_add_up_their_gradients() -> None:
    """dp 2: four ranks reduce, in one exchange per piece; each updates a quarter."""
    step = Step(small("parallelism.pp=4", "parallelism.schedule=dualpipe"))
    reduced = [t for t in step.program.tasks if t.kind == "reduce"]
    assert {w.op.group.size for t in reduced for w in t.work if isinstance(w.op, Collective)} == {4}
    updated = [w.op.parameters for t in step.program.tasks for w in t.work if isinstance(w.op, Optimizer)]
    model = step.family.workload.architecture.parameters
    assert sum(updated) * 2 == pytest.approx(model, rel=1e-9)


def test_messages_of_each_way_go_their_way() -> None:
    step = Step(small("parallelism.pp=4", "parallelism.schedule=dualpipe"))
    down = [(t.role, t.peer) for t in step.program.tasks if t.name.startswith("send forward")]
    assert {pair: down.count(pair) for pair in dict.fromkeys(down)} == {
        (0, 1): 8, (1, 2): 8, (2, 3): 8, (3, 2): 8, (2, 1): 8, (1, 0): 8,
    }  # fmt: skip


def test_stages_without_a_barrier_wait_for_their_own_gradients_only() -> None:
    program = plan("pp=4 schedule=zb-h2 optimizer_barrier=false")
    updates = [task for task in program.tasks if task.kind == "optimizer"]
    assert program.staggered
    assert all({program.tasks[i].role for i in task.waits} == {task.role} for task in updates)
