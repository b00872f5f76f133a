"""Names are catalog entries; an unknown one is an error that lists the nearest known."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sim.scenario import later, machine
from sim.scenario.finding import Check, Finding, finding, given
from sim.scenario.schema import Scenario, TrainingSpec

_FILE_ENDINGS = (".json", ".yaml", ".yml")


def known_node(scenario: Scenario) -> Iterator[Finding]:
    from hwmodels import catalog

    yield from _look_up(catalog.node, scenario.cluster.node, "cluster.node")


def known_stack(scenario: Scenario) -> Iterator[Finding]:
    from hwmodels import catalog

    if scenario.cluster.stack is not None:
        yield from _look_up(catalog.stack_named, scenario.cluster.stack, "cluster.stack")


def known_nic(scenario: Scenario) -> Iterator[Finding]:
    from hwmodels import catalog

    if scenario.cluster.nic is not None:
        yield from _look_up(catalog.nic, scenario.cluster.nic, "cluster.nic")


def known_model(scenario: Scenario) -> Iterator[Finding]:
    name = scenario.model
    if not isinstance(name, str):
        return
    if "/" in name or "\\" in name or name.lower().endswith(_FILE_ENDINGS):
        yield finding(
            f"{name!r}: reading a model from a file is not modelled yet: "
            "write a catalog name, or a mapping with layers, hidden, ffn, heads, vocab",
            "model",
        )
        return
    for what, parts in later.MODELS.items():
        if any(part in name.lower() for part in parts):
            yield finding(f"{name!r}: {what} are {later.NOT_YET}", "model")
            return
    from sim.workload.catalog import UnknownName, architecture, model_names, recommender_names
    from sim.workload.catalog.errors import nearest_first

    if name in recommender_names():
        return
    try:
        architecture(name)
    except UnknownName:
        yield finding(str(UnknownName("model", name, nearest_first(name, model_names()))), "model")


def sequence_length_is_given(scenario: Scenario) -> Iterator[Finding]:
    """Only recommenders without sequences do without."""
    model = machine.recommender(scenario)
    if not given(scenario.training, "sequence_length") and (model is None or model.encoder is not None):
        description = TrainingSpec.model_fields["sequence_length"].description
        yield finding(f"is missing: {description}", "training.sequence_length")


def _look_up(entry: Callable[[str], object], name: str, field: str) -> Iterator[Finding]:
    from hwmodels.catalog import CatalogError, UnknownName
    from sim.workload.catalog import UnknownName as UnknownModel

    try:
        entry(name)
    except (UnknownName, UnknownModel, CatalogError) as unknown:
        yield finding(str(unknown), field)


NAME_CHECKS: tuple[Check, ...] = (known_model, sequence_length_is_given, known_node, known_stack, known_nic)
