"""Nothing is lost: seconds, FLOPs and bytes of the record table against closed forms written here."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from fakes.scenarios import changes, small

from sim.ops import Collective, Shift
from sim.program import COMPUTE, SEND, Program
from sim.results import Record
from sim.step import Step

PLANS = (
    "",
    "data_sharding=ddp",
    "data_sharding=ddp overlap.dp=false",
    "data_sharding=zero-1 overlap.dp=false",
    "tp=8 sequence_parallel=true",
    "tp=4 sequence_parallel=false",
    "tp=8 overlap.tp=true",
    "tp=2 pp=2",
    "tp=2 pp=2 overlap.tp=true training.recompute=full",
    "pp=4",
    "pp=2 layout=[3,1]",
    "pp=2 layout=[1,3] schedule=gpipe",
    "pp=4 schedule=gpipe overlap.pp=false data_sharding=ddp overlap.dp=false",
    "pp=2 schedule=interleaved virtual_stages=2",
    "pp=2 schedule=interleaved virtual_stages=2 data_sharding=ddp overlap.dp=false training.recompute=full",
    "tp=2 pp=2 schedule=interleaved virtual_stages=2 training.recompute={layers:1} model.layers=6 layout=[2,1,2,1]",
    "pp=2 schedule=interleaved virtual_stages=3 layout=[0,1,1,1,1,0] training.recompute=full",
    "pp=4 schedule=zb-h1",
    "tp=2 pp=2 schedule=zb-h1 training.recompute=full",
    "pp=4 schedule=zb-h1 training.lora={rank:8}",
    "pp=2 schedule=zbv",
    "pp=2 schedule=zbv model.tied_embeddings=true data_sharding=ddp",
    "pp=4 schedule=v-half model.layers=9 layout=[1,1,1,1,2,1,1,1]",
    "tp=2 pp=2 schedule=v-min overlap.pp=false training.precision=fp8",
    "pp=4 schedule=zb-h2 optimizer_barrier=false",
    "pp=2 schedule=dualpipe",
    "pp=4 schedule=dualpipe data_sharding=ddp layout=[2,1,1,3] model.layers=7 training.recompute={layers:1}",
    "tp=2 pp=4 schedule=dualpipe overlap.dp=false training.precision=fp8 optimizer_barrier=false",
    "pp=2 schedule=dualpipe-v layout=[1,2,1,1] model.layers=5 overlap.pp=false",
    "data_sharding=fsdp",
    "data_sharding=fsdp reshard=false prefetch=2",
    "data_sharding=fsdp prefetch=0 training.micro_batch=2",
    "data_sharding=fsdp overlap.dp=false",
    "data_sharding=fsdp tp=2",
    "data_sharding=fsdp hsdp_replicas=2",
    "data_sharding=fsdp hsdp_replicas=2 cluster.nodes=2 cp=2 tp=2 reshard=false",
    "data_sharding=fsdp gradient_sync=last",
    "data_sharding=fsdp pp=2",
    "data_sharding=fsdp pp=4 reshard=true gradient_sync=every",
    "data_sharding=fsdp pp=2 reshard=true overlap.dp=false schedule=gpipe training.recompute=full",
    "data_sharding=fsdp pp=2 gradient_sync=every schedule=interleaved virtual_stages=2",
    "data_sharding=fsdp pp=2 schedule=zbv reshard=true gradient_sync=every",
    "data_sharding=fsdp pp=2 tp=2 hsdp_replicas=2 prefetch=0 schedule=zb-h1 cluster.nodes=2",
    "data_sharding=fsdp pp=2 model.tied_embeddings=true gradient_sync=every",
    "data_sharding=fsdp pp=2 training.lora={rank:8} reshard=true",
    "data_sharding=zero-2",
    "data_sharding=zero-2 tp=2 overlap.dp=false",
    "data_sharding=zero-2 pp=2",
    "data_sharding=zero-2 pp=4 overlap.dp=false schedule=zb-h1",
    "data_sharding=zero-2 pp=2 schedule=interleaved virtual_stages=2",
    "pp=2 order=pp-dp cluster.nodes=2",
    "tp=2 pp=2 order=dp-tp-pp cluster.nodes=2 data_sharding=fsdp hsdp_replicas=2",
    "cp=2 tp=2 pp=2 order=tp-cp-pp-dp cluster.nodes=2 cp_method=all-gather data_sharding=fsdp",
    "cp=2",
    "cp=4 tp=2 cp_method=all-gather",
    "cp=8 cp_method=all-to-all data_sharding=zero-2",
    "cp=2 pp=2 tp=2",
    "cp=2 training.recompute=full data_sharding=fsdp",
    "cp=2 cp_method=all-to-all training.recompute=selective",
    "cp=4 cp_method=all-gather training.recompute=operator",
    "cp=4 model.causal=false cp_method=ring data_sharding=ddp",
    "data_sharding=fsdp cluster.nodes=2",
    "data_sharding=fsdp training.lora={rank:16}",
    "data_sharding=ddp training.lora={rank:16,targets:[qkv]}",
    "pp=2 training.lora={rank:8,targets:[proj]}",
    "training.recompute=selective",
    "training.recompute=full",
    "training.recompute=operator",
    "training.recompute={layers:3}",
    "pp=2 training.recompute={layers:1}",
    "training.precision=fp8",
    "training.attention=unfused training.recompute=full",
    "model.tied_embeddings=true",
    "model.tied_embeddings=true pp=4",
    "model.tied_embeddings=true pp=2 data_sharding=ddp",
    "model.mlp=gelu model.norm=layernorm model.position=learned model.max_positions=2048 model.causal=false",
)


AXES = ("tp", "cp", "dp", "dp replicas", "pp", "embedding")


@pytest.fixture(params=PLANS, ids=lambda plan: plan or "zero-1")
def step(request: pytest.FixtureRequest) -> Step:
    return Step(small(*changes(request.param)))


# -- seconds ---------------------------------------------------------------------------------------


def test_causes_sum_to_the_step(step: Step) -> None:
    result = step.result
    assert math.fsum(result.breakdown_s.values()) == pytest.approx(result.step_time_s, rel=1e-9)
    assert min(result.breakdown_s.values()) > 0.0


def test_records_of_one_stream_never_overlap(step: Step) -> None:
    streams: dict[tuple[int, str], list[Record]] = defaultdict(list)
    for record in step.result.records:
        streams[record.role, record.stream].append(record)
    allowed = 1e-12 * step.result.step_time_s
    for rows in streams.values():
        rows.sort(key=lambda r: r.start_s + r.end_s)  # parts of no length lie between their neighbours
        for earlier, later in pairwise(rows):
            assert later.start_s >= earlier.end_s - allowed
    end_s = max(r.end_s for r in step.result.records)
    if step.family.strategy.optimizer_barrier:
        assert end_s == pytest.approx(step.result.step_time_s, rel=1e-12)
    else:  # stages that go on by themselves are still at it when others begin the next step
        assert end_s >= step.result.step_time_s * (1.0 - 1e-12)


def test_the_parts_of_every_task_sum_to_it(step: Step) -> None:
    for price in step.prices:
        assert math.fsum(part.seconds for part in price.parts) == pytest.approx(price.seconds, rel=1e-12)


def _covered(start_s: float, end_s: float, busy: list[tuple[float, float]]) -> float:
    return sum(max(0.0, min(end_s, b) - max(start_s, a)) for a, b in busy)


def test_hidden_and_exposed_communication_sum_to_its_run_time(step: Step) -> None:
    """Without a pipeline the compute stream idles only for collectives, so what is not hidden is in the step."""
    timeline, result = step.timeline, step.result
    last = max(
        range(step.family.layout.pp), key=lambda r: (timeline.spans_s[r][1] - timeline.spans_s[r][0], -r)
    )
    streams = timeline.program.order[last]
    busy = [(timeline.start_s[i], timeline.end_s[i]) for i in streams[COMPUTE]]
    apart = [i for stream, ids in streams.items() if stream != COMPUTE for i in ids]
    ran = sum(step.prices[i].seconds for i in apart)
    hidden = sum(_covered(timeline.start_s[i], timeline.end_s[i], busy) for i in apart)
    assert sum(result.hidden_s.values()) == pytest.approx(hidden, rel=1e-9, abs=1e-12)
    assert hidden <= ran * (1 + 1e-9)
    if step.family.layout.pp == 1:
        exposed = result.breakdown_s.get("data_parallel", 0.0)
        assert hidden + exposed == pytest.approx(ran, rel=1e-9, abs=1e-12)


# -- FLOPs -----------------------------------------------------------------------------------------


def _forward_flops(step: Step) -> dict[str, float]:
    """FLOPs of one layer's forward pass over the whole batch, by part, from the published widths."""
    a, t = step.family.model, step.scenario.training
    tokens = float(t.global_batch * t.sequence_length)
    lora = 0.0
    if t.lora is not None:
        outputs = {"qkv": a.q_width + 2 * a.kv_width, "proj": a.hidden}
        inputs = {"qkv": a.hidden, "proj": a.q_width}
        lora = sum(2.0 * tokens * t.lora.rank * (inputs[x] + outputs[x]) for x in t.lora.targets)
    scores = 4.0 * tokens * t.sequence_length * a.q_width
    return {
        "linear": 2.0 * tokens * a.layer_linear_parameters,
        "lora": lora,
        "attention": scores * (0.5 if a.causal and t.attention == "fused" else 1.0),
    }


def _step_flops(step: Step) -> float:
    """Model FLOPs (masked scores only where a kernel computes them) plus recomputed FLOPs."""
    a, t = step.family.model, step.scenario.training
    one = _forward_flops(step)
    backward = 2.0 if t.lora is None else 1.0
    layer = (
        one["linear"] * (1.0 + backward)
        + one["lora"] * 3.0
        + one["attention"] * (3.5 if t.attention == "fused" else 3.0)
    )
    head = 2.0 * t.global_batch * t.sequence_length * a.hidden * a.vocab * (1.0 + backward)
    kinds = {
        "none": 0.0,
        "selective": one["attention"],
        "operator": 2.0 * t.global_batch * t.sequence_length * _repeated_weights(step),
        "full": sum(one.values()),
    }
    return a.layers * layer + head + _recomputed_layers(step) * kinds[t.recompute.kind]


def _recomputed_layers(step: Step) -> float:
    """Of the model: each of its copies sees a part of the micro-batches."""
    layout = step.family.layout
    return sum(layout.recompute.layers) / layout.placement.copies


def _repeated_weights(step: Step) -> float:
    """Every second matrix of query, key, value, projection, gate, up, down: key, projection, up."""
    a = step.family.model
    return a.hidden * a.kv_width + a.q_width * a.hidden + a.hidden * a.ffn


def _recorded_flops(step: Step) -> float:
    """Each role stands for the ranks of its stage, which all do the same."""
    ranks = step.scenario.gpus // step.family.layout.pp
    return math.fsum(r.flops for r in step.result.records) * ranks


def test_flops_of_the_records_equal_the_closed_form(step: Step) -> None:
    assert _recorded_flops(step) == pytest.approx(_step_flops(step), rel=1e-12)


def test_model_flops_are_those_of_the_records_but_for_attention() -> None:
    """A fused causal kernel does 7 L·s·q per token, half of 4 forward and 2.5 times that backward; MFU counts 6."""
    step = Step(small("metrics.mfu_convention=megatron"))
    t, a = step.scenario.training, step.family.model
    tokens = t.global_batch * t.sequence_length
    attention = a.layers * t.sequence_length * a.q_width * tokens
    model = step.result.tflops_per_gpu * 1e12 * step.result.step_time_s * step.scenario.gpus
    assert _recorded_flops(step) == pytest.approx(model + attention, rel=1e-12)


@pytest.mark.parametrize(
    "plan",
    [
        "tp=8", "tp=2", "pp=4", "tp=2 pp=2", "tp=4 pp=2 schedule=gpipe", "data_sharding=fsdp",
        "training.micro_batch=4", "tp=8 training.micro_batch=8", "cluster.nodes=2", "pp=2 layout=[3,1]",
        "cluster.gpus=1", "cp=2", "cp=8 cp_method=all-gather", "cp=4 tp=2 cp_method=all-to-all", "data_sharding=zero-2",
        "data_sharding=fsdp tp=4 hsdp_replicas=2 cluster.nodes=2",
        "pp=2 schedule=interleaved virtual_stages=2", "pp=4 schedule=zb-h1", "pp=2 schedule=zbv",
        "pp=2 schedule=v-half", "pp=2 schedule=v-min training.micro_batch=2",
        "pp=4 schedule=zb-h2", "pp=4 schedule=dualpipe layout=[1,1,1,1]", "pp=2 schedule=dualpipe-v",
    ],
)  # fmt: skip
def test_every_layout_of_one_model_and_batch_computes_the_same(plan: str) -> None:
    one, other = Step(small()), Step(small(*changes(plan)))
    assert _recorded_flops(other) == pytest.approx(_recorded_flops(one), rel=1e-12)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_a_vocabulary_that_does_not_divide_adds_at_most_the_padding(tp: int) -> None:
    vocab = 32003
    plain = small(f"model.vocab={vocab}")
    one, other = Step(plain), Step(small(f"model.vocab={vocab}", f"parallelism.tp={tp}"))
    tokens = 32 * 2048
    padding = 6.0 * tokens * one.family.model.hidden * (-vocab % tp)
    assert _recorded_flops(other) - _recorded_flops(one) == pytest.approx(padding, rel=1e-9)


# -- bytes -----------------------------------------------------------------------------------------


def test_every_send_has_exactly_one_receiver(step: Step) -> None:
    program = step.program
    receivers: Counter[int] = Counter()
    for task in program.tasks:
        for other in task.waits:
            sender = program.tasks[other]
            if sender.stream == SEND and sender.role != task.role:
                receivers[other] += 1
                assert sender.peer == task.role
                assert task.stream == COMPUTE
                if " and " not in task.kind:  # passes of several micro-batches run as one
                    assert task.microbatch == sender.microbatch
    sends = [task.id for task in program.tasks if task.stream == SEND]
    assert len(sends) == 2 * _hops(step) * step.family.layout.microbatches
    assert receivers == dict.fromkeys(sends, 1)


def _hops(step: Step) -> int:
    """Borders between parts of the model that lie on different stages: a folded model turns on its last stage."""
    p = step.scenario.parallelism
    if p.schedule in ("zbv", "v-half", "v-min", "dualpipe-v"):
        return 2 * (p.pp - 1)
    return p.pp * p.virtual_stages - 1


def _wire(program: Program, axis: str, cause: str | None = None) -> float:
    """Bytes one rank of each role puts on the wire in groups of ``axis``, summed over roles."""
    return math.fsum(
        work.count * work.op.wire_bytes
        for task in program.tasks
        for work in task.work
        if isinstance(work.op, Collective | Shift)
        and work.op.group.axis == axis
        and (cause is None or work.cause == cause)
    )


def _rank_parameters(step: Step) -> float:
    """Trainable parameters summed over the stages, one rank each: matrices cut by tp, norms replicated."""
    a, tp = step.family.model, step.family.layout.tp
    if step.family.workload.lora is not None:
        return step.family.workload.trainable_parameters / tp
    norms = a.layers * (a.layer_parameters - a.layer_linear_parameters) + a.norm_parameters
    apart = step.family.layout.pp > 1 and step.scenario.parallelism.schedule != "zbv"
    whole = step.family.layout.placement.copies  # models in the pipeline
    copies = 2 if not a.tied_embeddings or apart else 1
    tables = copies * a.vocab * a.hidden + (a.embedding_parameters - a.vocab * a.hidden)
    return whole * (norms + (a.layers * a.layer_linear_parameters + tables) / tp)


def test_data_parallel_bytes_equal_the_closed_form(step: Step) -> None:
    layout, a = step.family.layout, step.family.model
    ranks = layout.dp * layout.cp * layout.placement.copies // layout.hsdp_replicas
    share = (ranks - 1) / ranks
    parameters = _rank_parameters(step)
    if layout.data_sharding == "fsdp":  # 2 gathers of the layers, one of the root, one reduction, each time
        norms = a.layers * (a.layer_parameters - a.layer_linear_parameters)
        layers = a.layers * a.layer_linear_parameters / layout.tp + norms
        own_head = a.vocab * a.hidden if layout.head_stage else a.head_parameters  # a tied copy of its own
        root = (a.embedding_parameters + own_head) / layout.tp + a.norm_parameters
        every, m = step.family.strategy.reshard, layout.microbatches
        kept = m if layout.pp == 1 else 1  # without a pipeline the backward frees what was kept for it
        gathered = layers * (2 * m if every else kept) + root * kept
        reductions = m if layout.gradient_sync == "every" else 1
        expected = share * (2.0 * gathered + 4.0 * reductions * parameters)
    elif layout.data_sharding == "zero-2":  # a reduce-scatter per micro-batch, one all-gather per step
        expected = share * (4.0 * layout.microbatches + 2.0) * parameters
    elif layout.data_sharding == "zero-1":  # one reduce-scatter in fp32, one all-gather in bf16
        expected = share * (4.0 + 2.0) * parameters
    else:
        expected = 2.0 * share * 4.0 * parameters
    assert _wire(step.program, "dp") == pytest.approx(expected, rel=1e-12)
    copies = layout.hsdp_replicas  # all-reduce their shards of every micro-batch's gradients
    reductions = layout.microbatches if layout.gradient_sync == "every" else 1
    across = reductions * 2.0 * (copies - 1) / copies * 4.0 * parameters / ranks
    assert _wire(step.program, "dp replicas") == pytest.approx(across, rel=1e-12)


def test_context_parallel_bytes_equal_the_closed_form(step: Step) -> None:
    """Of n ranks each sends n-1 parts. S tokens each: keys and values of a whole sequence gathered (forward),
    gathered again and their gradients scattered (backward); or passed on n-1 times, with gradients backward;
    or (n-1)/n of queries, keys, values and outputs, each way."""
    layout, a = step.family.layout, step.family.model
    row = layout.micro_batch * step.scenario.training.sequence_length / layout.cp * 2.0 / layout.tp
    keys_values, queries = 2.0 * a.kv_width * row, a.q_width * row
    if layout.cp_method == "all-to-all":
        forward = (2.0 * queries + keys_values) * (layout.cp - 1) / layout.cp
        backward = forward
    else:
        forward = (layout.cp - 1) * keys_values
        backward = 2.0 * forward
    again = sum(layout.recompute.layers) if layout.recompute.kind in ("full", "selective") else 0
    expected = layout.microbatches * (a.layers * (forward + backward) + again * forward)
    assert _wire(step.program, "cp") == pytest.approx(expected, rel=1e-12)


def test_tensor_parallel_bytes_equal_the_closed_form(step: Step) -> None:
    """Four all-reduces, or as many gather-scatter pairs, per layer and micro-batch; two more when recomputed."""
    layout, a = step.family.layout, step.family.model
    tokens = layout.micro_batch * step.scenario.training.sequence_length / layout.cp
    buffer = tokens * a.hidden * 2.0 * (layout.tp - 1) / layout.tp
    recomputed = _recomputed_layers(step) if layout.recompute.kind in ("full", "operator") else 0
    layers = (4 * a.layers + 2 * recomputed) * 2.0 * buffer
    head = 2.0 * buffer  # one all-reduce backward, or a gather forward and a scatter backward
    lookup = 2.0 * buffer  # one all-reduce forward, or a scatter forward and a gather backward
    if step.family.workload.frozen_base and layout.sequence_parallel:
        lookup = buffer  # a frozen table needs no gradient
    outer = head + lookup
    assert _wire(step.program, "tp") == pytest.approx(layout.microbatches * (layers + outer), rel=1e-12)
    again = 2.0 * recomputed * 2.0 * buffer * layout.microbatches
    assert _wire(step.program, "tp", "recompute") == pytest.approx(again, rel=1e-12)


def test_pipeline_bytes_equal_the_closed_form(step: Step) -> None:
    layout, a = step.family.layout, step.family.model
    tokens = layout.micro_batch * step.scenario.training.sequence_length / layout.cp
    message = tokens * a.hidden * 2.0 / layout.tp
    sent = 2.0 * _hops(step) * layout.microbatches * message
    assert _wire(step.program, "pp") == pytest.approx(sent, rel=1e-12)
    folded = step.scenario.parallelism.schedule == "zbv"  # both on the first stage
    tied = a.tied_embeddings and layout.pp > 1 and not folded  # else they all-reduce the table
    table = a.embedding_parameters / layout.tp * 4.0 if tied else 0.0
    table /= layout.dp if layout.data_sharding == "fsdp" else 1  # shard by shard
    assert _wire(step.program, "embedding") == pytest.approx(2 * table, rel=1e-12)


def test_bytes_of_the_records_are_those_of_the_program(step: Step) -> None:
    program = math.fsum(_wire(step.program, axis) for axis in AXES)
    assert math.fsum(r.bytes for r in step.result.records) == pytest.approx(program, rel=1e-12)
