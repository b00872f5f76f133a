"""Rules of what the host does for a step: memory that it lends, kernels that it launches."""

from __future__ import annotations

from collections.abc import Iterator

from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario


def offload_has_a_link(scenario: Scenario) -> Iterator[Finding]:
    asked, gpu = scenario.training.offload, machine.node(scenario).gpu
    for field, used in (
        ("activation_layers", asked.activation_layers),
        ("optimizer", asked.optimizer != "none"),
    ):
        if used and not gpu.host_link_Bps:
            yield finding(
                f"the link of {gpu.name} to host memory is not in the catalog: give cluster.gpu.host_link",
                f"training.offload.{field}",
            )


def offloaded_layers_exist(scenario: Scenario) -> Iterator[Finding]:
    """Megatron offloads no activations of a pipeline, nor beside recomputation."""
    wanted, where = scenario.training.offload.activation_layers, "training.offload.activation_layers"
    if not wanted:
        return
    layers = machine.architecture(scenario).layers
    if wanted >= layers:
        yield finding(f"{wanted} of {layers} layers: at least the last one stays", where)
    if scenario.parallelism.pp > 1:
        yield finding(f"beside a pipeline is {NOT_YET}", where, "parallelism.pp")
    if scenario.training.recompute.kind in ("full", "operator"):
        yield finding("beside full or operator recomputation is " + NOT_YET, where, "training.recompute")


def host_update_has_a_rate(scenario: Scenario) -> Iterator[Finding]:
    asked, where = scenario.training.offload, "training.offload.host_update_bandwidth"
    if asked.optimizer == "host" and asked.host_update_bandwidth_Bps is None:
        yield finding("is needed with optimizer: host: no catalog knows your host's memory", where)
    if asked.optimizer != "host" and asked.host_update_bandwidth_Bps is not None:
        yield finding("has no effect without optimizer: host", where)


def graphs_replace_launches(scenario: Scenario) -> Iterator[Finding]:
    """Without a host time per kernel there is nothing that graphs could save."""
    from hwmodels import catalog

    training = scenario.training
    if training.graphs == "none":
        return
    if given(training, "host_launch_s"):
        yield finding("has no effect with graphs: full: remove one of them", "training.host_launch")
        return
    name = scenario.cluster.stack
    profile = machine.stack(scenario) if name is None else catalog.stack_named(name)
    profile = catalog.newest_stack(machine.catalog_node(scenario).gpu.name) if name is None else profile
    if not profile.host_launch_s:
        yield finding(
            f"has no effect: stack {profile.name} states no host_launch, the host keeps ahead anyway",
            "training.graphs",
        )


HOST_RULES: tuple[Check, ...] = (
    offload_has_a_link,
    offloaded_layers_exist,
    host_update_has_a_rate,
    graphs_replace_launches,
)
