"""Rules of the plan: how model, batch and GPUs divide over the degrees of parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario

MOST_CHUNKS = 100_000
"""Micro-batches times parts of the model (layers, where every pass exchanges some): bounds an engine run's time."""

_DEGREES = ("parallelism.tp", "parallelism.pp", "parallelism.cp")


def gpus_divide_into_replicas(scenario: Scenario) -> Iterator[Finding]:
    p, gpus = scenario.parallelism, scenario.gpus
    replica = p.tp * p.pp * p.cp
    if gpus % replica:
        product = f"tp·pp·cp = {p.tp}·{p.pp}·{p.cp} = {replica}"
        yield finding(
            f"{gpus} GPUs must be a multiple of {product}", *_DEGREES, "cluster.gpus", "cluster.nodes"
        )


def tensor_parallel_stays_in_a_domain(scenario: Scenario) -> Iterator[Finding]:
    tp, domain = scenario.parallelism.tp, machine.domain_gpus(scenario)
    if tp > domain:
        yield finding(
            f"{tp}: TP spans nodes: {NOT_YET}: at most the {domain} GPUs of a scale-up domain",
            "parallelism.tp",
        )
    elif scenario.gpus > domain and domain % tp:
        yield finding(
            f"{tp}: TP spans nodes: {NOT_YET}: tp must divide the {domain} GPUs of a scale-up domain",
            "parallelism.tp",
        )


def tensor_parallel_divides_the_model(scenario: Scenario) -> Iterator[Finding]:
    tp, model = scenario.parallelism.tp, machine.architecture(scenario)
    for what, count in (("heads", model.heads), ("ffn", model.ffn)):
        if count % tp:
            yield finding(f"{tp} must divide {what} ({count}) of {model.name}", "parallelism.tp")
    if tp > model.kv_heads:
        yield finding(
            f"{tp} is above the {model.kv_heads} kv_heads of {model.name}: replicated KV heads are {NOT_YET}",
            "parallelism.tp",
        )
    elif model.kv_heads % tp:
        yield finding(f"{tp} must divide kv_heads ({model.kv_heads}) of {model.name}", "parallelism.tp")


def sequence_parallel_has_tensor_parallel(scenario: Scenario) -> Iterator[Finding]:
    if scenario.parallelism.sequence_parallel and scenario.parallelism.tp == 1:
        yield finding("has no effect with tp: 1: remove it", "parallelism.sequence_parallel")


def sequence_divides_over_tensor_parallel(scenario: Scenario) -> Iterator[Finding]:
    p, sequence = scenario.parallelism, scenario.training.sequence_length
    if p.sequence_parallel and sequence % p.tp:
        yield finding(
            f"{sequence} must be a multiple of tp ({p.tp}) under sequence parallelism",
            "training.sequence_length",
        )


def sequence_fits_the_position_table(scenario: Scenario) -> Iterator[Finding]:
    model, sequence = machine.architecture(scenario), scenario.training.sequence_length
    if model.position == "learned" and sequence > model.max_positions:
        yield finding(
            f"{sequence} is longer than the {model.max_positions} learned positions of {model.name}",
            "training.sequence_length",
        )


def batch_divides_over_replicas(scenario: Scenario) -> Iterator[Finding]:
    p, training = scenario.parallelism, scenario.training
    if scenario.gpus % (p.tp * p.pp * p.cp):
        return  # no dp; another rule says so
    unit = training.micro_batch * scenario.dp
    if training.global_batch % unit:
        low = training.global_batch // unit * unit
        near = f"{low} or {low + unit}" if low else f"{unit}"
        yield finding(
            f"{training.global_batch} must be a multiple of micro_batch·dp = {training.micro_batch}·{scenario.dp} "
            f"= {unit}; nearest: {near}",
            "training.global_batch",
        )


def step_is_short_enough_to_simulate(scenario: Scenario) -> Iterator[Finding]:
    p, training = scenario.parallelism, scenario.training
    if scenario.gpus % (p.tp * p.pp * p.cp) or training.global_batch % (training.micro_batch * scenario.dp):
        return
    fine = p.pp == 1 or p.data_sharding == "zero-2"
    fine |= p.data_sharding == "fsdp" and (p.reshard or p.gradient_sync == "every")
    blocks = machine.architecture(scenario).layers if fine else scenario.parts
    chunks = scenario.microbatches * blocks
    if chunks > MOST_CHUNKS:
        per_replica = MOST_CHUNKS // blocks
        yield finding(
            f"{scenario.microbatches:,} micro-batches per replica: at most {per_replica:,} are simulated with this plan; "
            "raise micro_batch or the number of replicas",
            "training.global_batch",
        )


def stages_have_layers(scenario: Scenario) -> Iterator[Finding]:
    p, layers = scenario.parallelism, machine.architecture(scenario).layers
    if p.pp > layers:
        yield finding(f"{p.pp} stages for {layers} layers: every stage needs at least one", "parallelism.pp")
    elif scenario.parts > layers and isinstance(p.layout, str):
        yield finding(
            f"{p.pp} stages with {scenario.parts // p.pp} parts each for {layers} layers: every part needs at "
            "least one",
            "parallelism.virtual_stages",
            "parallelism.schedule",
        )


def layout_covers_the_model(scenario: Scenario) -> Iterator[Finding]:
    p, layers = scenario.parallelism, machine.architecture(scenario).layers
    if isinstance(p.layout, str):
        return
    if len(p.layout) != scenario.parts:
        each = (
            "one per stage" if scenario.parts == p.pp else f"one for each of {scenario.parts} virtual stages"
        )
        yield finding(f"{len(p.layout)} entries for {p.pp} stages: {each}", "parallelism.layout")
    elif sum(p.layout) != layers:
        yield finding(f"sums to {sum(p.layout)}, the model has {layers} layers", "parallelism.layout")
    elif 0 in (p.layout[1:-1] if p.schedule == "interleaved" else p.layout):
        yield finding(
            "0: only the first and the last part of an interleaved schedule may do without layers: they hold the "
            "embedding and the output layer",
            "parallelism.layout",
        )


def ends_leave_the_rest(scenario: Scenario) -> Iterator[Finding]:
    """First and last stage have their own number of layers; every part of the others needs one."""
    p, layers = scenario.parallelism, machine.architecture(scenario).layers
    fields = [f for f in ("first_stage_layers", "last_stage_layers") if getattr(p, f) is not None]
    where = [f"parallelism.{field}" for field in fields]
    if not fields:
        return
    if p.pp < 2:
        yield finding("has no effect with pp: 1: remove it", where[0])
        return
    if p.layout != "auto":
        yield finding("beside layout: keep one of the two", where[0])
    if scenario.parts != p.pp * p.virtual_stages or p.schedule == "dualpipe":
        yield finding(f"with schedule: {p.schedule} write layout, a list", where[0])
        return
    for field in fields:
        if getattr(p, field) % p.virtual_stages:
            yield finding(
                f"{getattr(p, field)} must divide over {p.virtual_stages} virtual stages",
                f"parallelism.{field}",
            )
    rest = layers - sum(getattr(p, field) for field in fields)
    others = (p.pp - len(fields)) * p.virtual_stages
    if rest < others or (rest and not others):
        yield finding(f"leaves {rest} of {layers} layers for {others} other parts", *where)


def recompute_has_layers(scenario: Scenario) -> Iterator[Finding]:
    wanted, p = scenario.training.recompute.layers, scenario.parallelism
    if wanted is None:
        return
    model = machine.architecture(scenario)
    layers = model.layers
    if isinstance(wanted, tuple):
        last = layers + model.mtp_layers - 1
        if wanted[-1] > last:
            yield finding(
                f"{wanted[-1]}: layers of {model.name} are 0 to {last}", "training.recompute.layers"
            )
        return
    largest = ceil(layers / scenario.parts) if isinstance(p.layout, str) else max(p.layout)
    if p.layout == "balanced" or p.first_stage_layers or p.last_stage_layers:
        largest = layers  # of a stage: at most
    if wanted > largest:
        where = (
            f"the {layers} layers of the model" if p.pp == 1 else f"the {largest} layers of the largest stage"
        )
        yield finding(f"{wanted} is more than {where}", "training.recompute.layers")


def schedule_has_a_pipeline(scenario: Scenario) -> Iterator[Finding]:
    if given(scenario.parallelism, "schedule") and scenario.parallelism.pp == 1:
        yield finding("has no effect with pp: 1: remove it", "parallelism.schedule")


def virtual_stages_are_interleaved(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    if p.schedule == "interleaved" and p.virtual_stages == 1:
        yield finding("interleaved needs virtual_stages of 2 or more", "parallelism.schedule")
    elif p.schedule != "interleaved" and given(p, "virtual_stages"):
        yield finding(
            f"has no effect with schedule: {p.schedule}: remove it, or choose interleaved",
            "parallelism.virtual_stages",
        )


def interleaved_rounds_are_equal(scenario: Scenario) -> Iterator[Finding]:
    """Each stage takes up its parts in rounds of about pp micro-batches."""
    p, training = scenario.parallelism, scenario.training
    replica = p.tp * p.pp * p.cp
    if p.schedule != "interleaved" or scenario.gpus % replica:
        return
    unit = training.micro_batch * scenario.dp
    if training.global_batch % unit:
        return  # another rule says so
    count = scenario.microbatches
    rounds = max(1, count // p.pp)
    if count % rounds:
        yield finding(
            f"{count} micro-batches per replica: interleaved needs a multiple of pp ({p.pp}), or fewer: global_batch "
            f"{count // p.pp * p.pp * unit} or {(count // p.pp + 1) * p.pp * unit}",
            "training.global_batch",
        )


def both_ways_have_their_microbatches(scenario: Scenario) -> Iterator[Finding]:
    """DualPipe fills each way with stages and micro-batches of its own, and both ends with a whole model's."""
    p, training = scenario.parallelism, scenario.training
    if p.schedule not in ("dualpipe", "dualpipe-v") or p.pp == 1 or scenario.gpus % (p.tp * p.pp * p.cp):
        return
    if p.schedule == "dualpipe" and p.pp % 2:
        yield finding(
            f"{p.pp} stages: dualpipe needs an even number, one half starts each way", "parallelism.pp"
        )
    unit = training.micro_batch * scenario.dp
    if training.global_batch % unit:
        return  # another rule says so
    count = scenario.microbatches
    if count < 2 * p.pp:
        yield finding(
            f"{count} micro-batches per replica: {p.schedule} needs at least 2·pp = {2 * p.pp}: global_batch "
            f"{2 * p.pp * unit} or more",
            "training.global_batch",
        )
    elif p.schedule == "dualpipe" and count % 2:
        yield finding(
            f"{count} micro-batches per replica: dualpipe needs an even number, half for each way: global_batch "
            f"{(count - 1) * unit} or {(count + 1) * unit}",
            "training.global_batch",
        )


def two_copies_are_plain(scenario: Scenario) -> Iterator[Finding]:
    p, model = scenario.parallelism, machine.architecture(scenario)
    if p.schedule != "dualpipe":
        return
    if model.tied_embeddings:
        yield finding(
            f"dualpipe with tied embeddings ({model.name}) is {NOT_YET}: dualpipe-v", "parallelism.schedule"
        )
    if scenario.training.input is not None:
        yield finding(f"dualpipe takes samples in at both ends: {NOT_YET}", "training.input")


def both_ways_share_no_gradients(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    if p.schedule in ("dualpipe", "dualpipe-v") and p.data_sharding in ("zero-2", "fsdp"):
        yield finding(
            f"{p.data_sharding} beside {p.schedule} is {NOT_YET}: ddp or zero-1", "parallelism.data_sharding"
        )


def barrier_has_a_pipeline(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    if given(p, "optimizer_barrier") and p.pp == 1:
        yield finding("has no effect with pp: 1: remove it", "parallelism.optimizer_barrier")


def gradients_are_reduced_somewhere(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    if not given(p, "gradient_sync") or p.data_sharding == "fsdp":
        return
    why = (
        "zero-2 reduces every micro-batch, zero-1 the last"
        if p.data_sharding == "zero-2"
        else "it reduces the last"
    )
    yield finding(
        f"has no effect with data_sharding: {p.data_sharding} ({why}): remove it, or choose fsdp",
        "parallelism.gradient_sync",
    )


def copies_divide_the_replicas(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    if given(p, "hsdp_replicas") and p.data_sharding != "fsdp":
        yield finding(
            f"has no effect with data_sharding: {p.data_sharding}: remove it, or choose fsdp",
            "parallelism.hsdp_replicas",
        )
        return
    if p.hsdp_replicas == 1 or scenario.gpus % (p.tp * p.pp * p.cp):
        return
    ranks = scenario.dp * p.cp
    if ranks % p.hsdp_replicas or ranks == p.hsdp_replicas:
        yield finding(
            f"{p.hsdp_replicas} must divide dp·cp = {scenario.dp}·{p.cp} = {ranks} and lie below it: each copy is "
            "sharded over the rest",
            "parallelism.hsdp_replicas",
        )
    if p.ep > 1:
        yield finding(f"beside ep: {p.ep} is {NOT_YET}", "parallelism.hsdp_replicas")


def fsdp_switches_have_fsdp(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    for switch in ("reshard", "prefetch", "gather_dtype"):
        if given(p, switch) and p.data_sharding != "fsdp":
            yield finding(
                f"has no effect with data_sharding: {p.data_sharding}: remove it, or choose fsdp",
                f"parallelism.{switch}",
            )


def buckets_are_filled(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    fields = ("bucket", "bucket_size_bytes", "bucket_parameters")
    asked = [name for name in fields if given(p, name) and getattr(p, name) not in (None, "layer")]
    where = [f"parallelism.{name.removesuffix('_bytes')}" for name in asked]
    if len(asked) > 1:
        yield finding("gives the size of a bucket twice: keep one", *reversed(where))
    elif asked and p.data_sharding == "fsdp":
        yield finding("has no effect with data_sharding: fsdp: its units are layers: remove it", *where)
    elif asked and not p.overlap.dp:
        yield finding("has no effect with overlap.dp: false: all gradients travel at once: remove it", *where)


def adapters_are_thinner_than_the_model(scenario: Scenario) -> Iterator[Finding]:
    lora, model = scenario.training.lora, machine.architecture(scenario)
    if lora is not None and lora.rank > model.hidden:
        yield finding(
            f"{lora.rank} is above the width of {model.name} ({model.hidden})", "training.lora.rank"
        )


PLAN_RULES: tuple[Check, ...] = (
    gpus_divide_into_replicas,
    tensor_parallel_stays_in_a_domain,
    tensor_parallel_divides_the_model,
    sequence_parallel_has_tensor_parallel,
    sequence_divides_over_tensor_parallel,
    sequence_fits_the_position_table,
    batch_divides_over_replicas,
    step_is_short_enough_to_simulate,
    stages_have_layers,
    layout_covers_the_model,
    ends_leave_the_rest,
    recompute_has_layers,
    schedule_has_a_pipeline,
    virtual_stages_are_interleaved,
    interleaved_rounds_are_equal,
    gradients_are_reduced_somewhere,
    both_ways_have_their_microbatches,
    two_copies_are_plain,
    both_ways_share_no_gradients,
    barrier_has_a_pipeline,
    copies_divide_the_replicas,
    fsdp_switches_have_fsdp,
    buckets_are_filled,
    adapters_are_thinner_than_the_model,
)
