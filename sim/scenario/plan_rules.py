"""Rules of the plan: how model, batch and GPUs divide over the degrees of parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario

MOST_CHUNKS = 100_000
"""Micro-batches times stages (times layers without a pipeline) of one step: bounds the time of an engine run."""

_DEGREES = ("parallelism.tp", "parallelism.pp", "parallelism.cp")


def only_modelled_degrees(scenario: Scenario) -> Iterator[Finding]:
    if scenario.parallelism.cp > 1:
        yield finding(
            f"{scenario.parallelism.cp}: context parallelism is {NOT_YET}: only 1", "parallelism.cp"
        )
    if scenario.parallelism.ep > 1:
        yield finding(f"{scenario.parallelism.ep}: expert parallelism is {NOT_YET}: only 1", "parallelism.ep")


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
    blocks = p.pp if p.pp > 1 else machine.architecture(scenario).layers
    chunks = scenario.microbatches * blocks
    if chunks > MOST_CHUNKS:
        per_replica = MOST_CHUNKS // blocks
        yield finding(
            f"{scenario.microbatches:,} micro-batches per replica: at most {per_replica:,} are simulated with this plan; "
            "raise micro_batch or the number of replicas",
            "training.global_batch",
        )


def stages_have_layers(scenario: Scenario) -> Iterator[Finding]:
    pp, layers = scenario.parallelism.pp, machine.architecture(scenario).layers
    if pp > layers:
        yield finding(f"{pp} stages for {layers} layers: every stage needs at least one", "parallelism.pp")


def layout_covers_the_model(scenario: Scenario) -> Iterator[Finding]:
    p, layers = scenario.parallelism, machine.architecture(scenario).layers
    if isinstance(p.layout, str):
        return
    if len(p.layout) != p.pp:
        yield finding(f"{len(p.layout)} entries for {p.pp} stages: one per stage", "parallelism.layout")
    elif sum(p.layout) != layers:
        yield finding(f"sums to {sum(p.layout)}, the model has {layers} layers", "parallelism.layout")


def recompute_has_layers(scenario: Scenario) -> Iterator[Finding]:
    wanted, p = scenario.training.recompute.layers, scenario.parallelism
    if wanted is None:
        return
    layers = machine.architecture(scenario).layers
    largest = ceil(layers / p.pp) if isinstance(p.layout, str) else max(p.layout)
    if wanted > largest:
        where = (
            f"the {layers} layers of the model" if p.pp == 1 else f"the {largest} layers of the largest stage"
        )
        yield finding(f"{wanted} is more than {where}", "training.recompute.layers")


def schedule_has_a_pipeline(scenario: Scenario) -> Iterator[Finding]:
    if given(scenario.parallelism, "schedule") and scenario.parallelism.pp == 1:
        yield finding("has no effect with pp: 1: remove it", "parallelism.schedule")


def fsdp_stands_alone(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    beside = " and ".join(f"{name}: {degree}" for name, degree in (("tp", p.tp), ("pp", p.pp)) if degree > 1)
    if p.data_sharding == "fsdp" and beside:
        yield finding(f"fsdp beside {beside} is {NOT_YET}: ddp or zero-1", "parallelism.data_sharding")


def fsdp_switches_have_fsdp(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    for switch in ("reshard", "prefetch", "gather_dtype"):
        if given(p, switch) and p.data_sharding != "fsdp":
            yield finding(
                f"has no effect with data_sharding: {p.data_sharding}: remove it, or choose fsdp",
                f"parallelism.{switch}",
            )


def adapters_are_thinner_than_the_model(scenario: Scenario) -> Iterator[Finding]:
    lora, model = scenario.training.lora, machine.architecture(scenario)
    if lora is not None and lora.rank > model.hidden:
        yield finding(
            f"{lora.rank} is above the width of {model.name} ({model.hidden})", "training.lora.rank"
        )


PLAN_RULES: tuple[Check, ...] = (
    only_modelled_degrees,
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
    recompute_has_layers,
    schedule_has_a_pipeline,
    fsdp_stands_alone,
    fsdp_switches_have_fsdp,
    adapters_are_thinner_than_the_model,
)
