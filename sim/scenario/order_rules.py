"""Rules of the order in which axes of parallelism are laid over the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from sim.axes import Axes
from sim.scenario import machine
from sim.scenario.finding import Check, Finding, finding
from sim.scenario.later import NOT_YET
from sim.scenario.schema import Scenario

FIELD = "parallelism.order"


def order_names_every_axis(scenario: Scenario) -> Iterator[Finding]:
    p = scenario.parallelism
    for axis in ("tp", "cp", "ep", "dp", "pp"):
        degree = scenario.dp if axis == "dp" else getattr(p, axis)
        if degree > 1 and axis not in p.order.split("-"):
            yield finding(f"{p.order} leaves out {axis}, whose degree is {degree}", FIELD)


def tensor_parallel_neighbours_share_a_domain(scenario: Scenario) -> Iterator[Finding]:
    """tp and etp groups, where axes before them pull their members apart."""
    if not _divides(scenario):
        return
    domain = machine.domain_gpus(scenario)
    if scenario.gpus <= domain:
        return
    views = [("tp", _axes(scenario))]
    if machine.architecture(scenario).experts is not None:
        views.append(("etp", _expert_axes(scenario)))
    for name, axes in views:
        size, stride = axes.size("tp"), axes.stride("tp")
        if size > 1 and stride > 1 and domain % (size * stride):
            yield finding(
                f"{scenario.parallelism.order} puts the {size} ranks of {name} {stride} apart: TP spans nodes: {NOT_YET}: "
                f"{name} times the degrees before it must divide the {domain} GPUs of a scale-up domain",
                FIELD,
            )


def replicas_are_evenly_spaced(scenario: Scenario) -> Iterator[Finding]:
    """Gradients are exchanged over cp and dp together."""
    p, order = scenario.parallelism, scenario.parallelism.order
    if p.cp == 1 or scenario.dp == 1 or not _divides(scenario):
        return
    between = [axis for axis in _axes(scenario).between("cp", "dp") if axis != "pp"]
    if between:
        yield finding(
            f"{order}: gradients are exchanged over cp and dp together, with {', '.join(between)} between them they are "
            f"not evenly spaced: {NOT_YET}: make cp and dp neighbours",
            FIELD,
        )
    elif p.hsdp_replicas > 1 and _axes(scenario).between("cp", "dp"):
        yield finding(
            f"{order}: replicas of shards with pp between cp and dp are {NOT_YET}: make cp and dp neighbours",
            FIELD,
        )


def experts_share_the_stages(scenario: Scenario) -> Iterator[Finding]:
    """Megatron-LM's rule: pipeline groups of routed experts and of all else are the same."""
    if (
        machine.architecture(scenario).experts is None
        or not _divides(scenario)
        or scenario.parallelism.pp == 1
    ):
        return
    one, other = _axes(scenario).stride("pp"), _expert_axes(scenario).stride("pp")
    if one != other:
        yield finding(
            f"{scenario.parallelism.order}: stages lie {one} ranks apart, those of routed experts {other}: put pp last, or "
            "choose degrees that agree",
            FIELD,
        )


def two_copies_have_stages_last(scenario: Scenario) -> Iterator[Finding]:
    """Gradients of both copies meet at mirrored stages."""
    p = scenario.parallelism
    if p.schedule != "dualpipe" or p.pp == 1 or not _divides(scenario):
        return
    if _axes(scenario).stride("pp") * p.pp != scenario.gpus:
        yield finding(f"{p.order}: dualpipe with pp before other axes is {NOT_YET}: put pp last", FIELD)


def _divides(scenario: Scenario) -> bool:
    """Whether the degrees divide the GPUs; other rules say where they do not."""
    p = scenario.parallelism
    ranks = p.tp * p.cp * scenario.dp
    return not scenario.gpus % (p.tp * p.pp * p.cp) and scenario.dp > 0 and not ranks % (p.ep * p.etp)


def _axes(scenario: Scenario) -> Axes:
    p = scenario.parallelism
    return Axes.of(scenario.axis_order, tp=p.tp, cp=p.cp, dp=scenario.dp, pp=p.pp)


def _expert_axes(scenario: Scenario) -> Axes:
    p = scenario.parallelism
    copies = p.tp * p.cp * scenario.dp // (p.ep * p.etp)
    return Axes.of(scenario.axis_order, tp=p.etp, ep=p.ep, dp=copies, pp=p.pp)


ORDER_RULES: tuple[Check, ...] = (
    order_names_every_axis,
    tensor_parallel_neighbours_share_a_domain,
    replicas_are_evenly_spaced,
    experts_share_the_stages,
    two_copies_have_stages_last,
)
