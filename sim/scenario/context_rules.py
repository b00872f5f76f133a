"""Rules of context parallelism: how sequences and heads divide over the ranks that share them."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario


def sequence_divides_over_context_parallel(scenario: Scenario) -> Iterator[Finding]:
    """Causal ranks hold two chunks each, and tensor-parallel ones of a chunk equal parts of it."""
    p, sequence = scenario.parallelism, scenario.training.sequence_length
    if p.cp == 1:
        return
    causal = machine.architecture(scenario).causal and p.cp_method != "all-to-all"
    shards = p.tp if p.sequence_parallel else 1
    unit = p.cp * shards * (2 if causal else 1)
    if sequence % unit:
        product = "·".join(["2"] * causal + ["cp"] + ["tp"] * (shards > 1))
        yield finding(
            f"{sequence} must be a multiple of {product} = {unit} under context parallelism",
            "training.sequence_length",
            "parallelism.cp",
        )


def heads_divide_over_context_parallel(scenario: Scenario) -> Iterator[Finding]:
    p, model = scenario.parallelism, machine.architecture(scenario)
    if p.cp == 1 or p.cp_method != "all-to-all":
        return
    for what, count in (("heads", model.heads), ("kv_heads", model.kv_heads)):
        if count % (p.tp * p.cp):
            yield finding(
                f"all-to-all gives every rank whole heads: tp·cp = {p.tp * p.cp} must divide {what} ({count}) "
                f"of {model.name}; or cp_method: ring or all-gather",
                "parallelism.cp_method",
                "parallelism.cp",
            )
            return


def context_parallel_attention_is_fused(scenario: Scenario) -> Iterator[Finding]:
    if scenario.parallelism.cp > 1 and scenario.training.attention != "fused":
        yield finding(
            f"{scenario.training.attention}: with cp above 1 {NOT_YET}: fused", "training.attention"
        )


def windows_are_not_passed_round(scenario: Scenario) -> Iterator[Finding]:
    p, model = scenario.parallelism, machine.architecture(scenario)
    if p.cp > 1 and p.cp_method == "ring" and model.window:
        yield finding(
            f"ring: sliding windows ({model.name}) in a ring are {NOT_YET}: all-gather or all-to-all",
            "parallelism.cp_method",
        )


def method_has_context_parallel(scenario: Scenario) -> Iterator[Finding]:
    if given(scenario.parallelism, "cp_method") and scenario.parallelism.cp == 1:
        yield finding("has no effect with cp: 1: remove it", "parallelism.cp_method")


def fixed_order_is_known(scenario: Scenario) -> Iterator[Finding]:
    training = scenario.training
    if not training.deterministic_attention:
        return
    if training.attention == "unfused":
        yield finding("has no effect on unfused attention: remove it", "training.deterministic_attention")
    elif not machine.stack(scenario).memory.get("deterministic_keys"):
        yield finding(
            f"what the kernels of stack {machine.stack(scenario).name} keep is not known: a stack file says it "
            "as memory.deterministic_keys",
            "training.deterministic_attention",
        )


CONTEXT_RULES: tuple[Check, ...] = (
    sequence_divides_over_context_parallel,
    heads_divide_over_context_parallel,
    context_parallel_attention_is_fused,
    windows_are_not_passed_round,
    method_has_context_parallel,
    fixed_order_is_known,
)
