"""Rules of experts and of what comes with them: latent attention, prediction of further tokens."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario


def experts_divide_over_ranks(scenario: Scenario) -> Iterator[Finding]:
    p, model = scenario.parallelism, machine.architecture(scenario)
    if p.ep == 1:
        return
    if model.experts is None:
        yield finding(f"{p.ep}: {model.name} has no experts: only 1", "parallelism.ep")
        return
    if model.experts.count % p.ep:
        yield finding(
            f"{p.ep} must divide the {model.experts.count} experts of {model.name}", "parallelism.ep"
        )
    if scenario.gpus % (p.tp * p.pp * p.cp):
        return  # no dp; another rule says so
    if given(p, "etp") and scenario.dp * p.cp * p.tp % (p.ep * p.etp):
        yield finding(
            f"ep·etp = {p.ep}·{p.etp} must divide tp·cp·dp = {p.tp}·{p.cp}·{scenario.dp}: experts are spread over "
            "replicas",
            "parallelism.ep",
            "parallelism.etp",
        )
    elif not given(p, "etp") and scenario.dp * p.cp % p.ep:
        yield finding(
            f"{p.ep} must divide dp·cp = {scenario.dp}·{p.cp}: experts are spread over replicas",
            "parallelism.ep",
        )


def routing_has_experts(scenario: Scenario) -> Iterator[Finding]:
    model = machine.architecture(scenario)
    if model.experts is not None:
        return
    if given(scenario.training, "moe"):
        yield finding(f"has no effect: {model.name} has no experts: remove it", "training.moe")
    if given(scenario.parallelism.overlap, "ep"):
        yield finding(f"has no effect: {model.name} has no experts: remove it", "parallelism.overlap.ep")


def routing_is_consistent(scenario: Scenario) -> Iterator[Finding]:
    moe, overlap = scenario.training.moe, scenario.parallelism.overlap
    if moe.capacity_factor is not None and moe.balance_factor != 1.0:
        yield finding(
            "a capacity fixes the tokens of every expert: give one of the two",
            "training.moe.balance_factor",
            "training.moe.capacity_factor",
        )
    elif moe.balance_factor > scenario.parallelism.ep:
        ep = scenario.parallelism.ep
        yield finding(
            f"{moe.balance_factor:g}: the most loaded of ep = {ep} ranks gets at most {ep} times the mean",
            "training.moe.balance_factor",
        )
    if moe.one_hot and moe.capacity_factor is None:
        yield finding("one-hot masks have a fixed capacity: give capacity_factor", "training.moe.one_hot")
    if moe.one_hot and moe.dispatch != "plain":
        yield finding(f"one-hot masks move one copy per expert, not {moe.dispatch}", "training.moe.one_hot")
    if moe.static_buffer and moe.capacity_factor is not None:
        yield finding("a capacity bounds the buffer: remove it", "training.moe.static_buffer")
    if moe.dispatch_units is not None and moe.dispatch == "plain":
        yield finding("belongs to a deduplicated or fused dispatch: remove it", "training.moe.dispatch_units")
    units = machine.node(scenario).gpu.compute_units if moe.dispatch_units is not None else 0
    if moe.dispatch_units is not None and moe.dispatch_units >= units:
        yield finding(
            f"{moe.dispatch_units}: the GPU has {units} compute units", "training.moe.dispatch_units"
        )
    if moe.dispatch == "fused" and overlap.ep:
        yield finding("a fused dispatch is hidden already: remove it", "parallelism.overlap.ep")


def tensor_parallel_divides_the_experts(scenario: Scenario) -> Iterator[Finding]:
    p, model = scenario.parallelism, machine.architecture(scenario)
    if model.experts is None:
        return
    experts, field = model.experts, "parallelism.etp" if given(p, "etp") else "parallelism.tp"
    if experts.ffn % p.etp:
        yield finding(f"{p.etp} must divide ffn of experts ({experts.ffn}) of {model.name}", field)
    if experts.shared_ffn % p.tp:
        yield finding(
            f"{p.tp} must divide shared_ffn ({experts.shared_ffn}) of {model.name}", "parallelism.tp"
        )
    if p.tp > 1 and not p.sequence_parallel:
        yield finding(
            "experts beside tp need it: each rank routes its own tokens", "parallelism.sequence_parallel"
        )


def expert_tensor_parallel_has_experts(scenario: Scenario) -> Iterator[Finding]:
    p, model, domain = scenario.parallelism, machine.architecture(scenario), machine.domain_gpus(scenario)
    if not given(p, "etp"):
        return
    field = "parallelism.etp"
    if model.experts is None:
        yield finding(f"has no effect: {model.name} has no experts: remove it", field)
        return
    if p.etp > domain or (scenario.gpus > domain and domain % p.etp):
        yield finding(
            f"{p.etp}: TP spans nodes: {NOT_YET}: etp must divide the {domain} GPUs of a scale-up domain",
            field,
        )
    if not scenario.gpus % (p.tp * p.pp * p.cp) and scenario.dp * p.cp * p.tp % p.etp:
        yield finding(f"{p.etp} must divide tp·cp·dp = {p.tp}·{p.cp}·{scenario.dp}", field)
    if scenario.training.moe.one_hot and p.etp != p.tp:
        yield finding(f"{p.etp}: one-hot masks beside an etp other than tp are {NOT_YET}", field)


def experts_have_one_copy(scenario: Scenario) -> Iterator[Finding]:
    model, replicas = machine.architecture(scenario), scenario.parallelism.hsdp_replicas
    if model.experts is not None and replicas > 1:
        yield finding(
            f"{replicas}: replicas of shards beside experts are {NOT_YET}", "parallelism.hsdp_replicas"
        )


def adapters_have_a_plain_base(scenario: Scenario) -> Iterator[Finding]:
    model = machine.architecture(scenario)
    if scenario.training.lora is None:
        return
    special = {
        "latent attention": model.latent is not None,
        "layers for further tokens": model.mtp_layers > 0,
    }
    for what in (name for name, has in special.items() if has):
        yield finding(f"adapters on a model with {what} are {NOT_YET}", "training.lora")


def operators_are_known(scenario: Scenario) -> Iterator[Finding]:
    model = machine.architecture(scenario)
    special = model.experts is not None or model.latent is not None
    if scenario.training.recompute.kind == "operator" and special:
        yield finding(
            f"operator with experts or latent attention is {NOT_YET}: none, selective or full",
            "training.recompute.kind",
        )


def modules_are_there(scenario: Scenario) -> Iterator[Finding]:
    """Every module that is recomputed exists in some layer, and its kernels are known."""
    training, model = scenario.training, machine.architecture(scenario)
    asked = training.recompute.modules
    kinds = {kind.routed for kind in model.kinds}
    lacking = {
        "mla_up_proj": (model.latent is None, "latent attention"),
        "moe": (True not in kinds, "experts"),
        "moe_act": (True not in kinds, "experts"),
        "mlp": (False not in kinds, "layers without experts"),
    }
    for module in asked:
        lacks, what = lacking.get(module, (False, ""))
        if lacks:
            yield finding(f"{module} has no effect: {model.name} has no {what}", "training.recompute.modules")
    if {"moe", "moe_act"} <= set(asked):
        yield finding("moe contains moe_act: keep one", "training.recompute.modules")
    if asked == ("core_attn",):
        return
    if training.lora is not None:
        yield finding(f"modules beside adapters are {NOT_YET}", "training.recompute.modules")
    if training.precision not in ("bf16", "fp16", "fp32"):
        yield finding(
            f"modules but core_attn in {training.precision} are {NOT_YET}", "training.recompute.modules"
        )


EXPERT_RULES: tuple[Check, ...] = (
    experts_divide_over_ranks,
    routing_has_experts,
    routing_is_consistent,
    tensor_parallel_divides_the_experts,
    expert_tensor_parallel_has_experts,
    experts_have_one_copy,
    adapters_have_a_plain_base,
    operators_are_known,
    modules_are_there,
)
