"""All rules across fields. A scenario that passes them is one that the models can answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from sim.scenario import machine
from sim.scenario.context_rules import CONTEXT_RULES
from sim.scenario.expert_rules import EXPERT_RULES
from sim.scenario.finding import Check, Finding
from sim.scenario.host_rules import HOST_RULES
from sim.scenario.input_rules import INPUT_RULES
from sim.scenario.machine_rules import MACHINE_RULES
from sim.scenario.names import NAME_CHECKS
from sim.scenario.order_rules import ORDER_RULES
from sim.scenario.partial import Undecided, view
from sim.scenario.plan_rules import PLAN_RULES
from sim.scenario.recommender_rules import RECOMMENDER_RULES, tables_have_a_recommender
from sim.scenario.schema import Scenario
from sim.scenario.variability_rules import VARIABILITY_RULES

COMMON_RULES: tuple[Check, ...] = (*MACHINE_RULES, *INPUT_RULES)
TRANSFORMER_RULES: tuple[Check, ...] = (
    *PLAN_RULES,
    *ORDER_RULES,
    *EXPERT_RULES,
    *CONTEXT_RULES,
    *HOST_RULES,
    *VARIABILITY_RULES,
    tables_have_a_recommender,
)


def broken_rules(scenario: Scenario, broken: AbstractSet[str] = frozenset()) -> Iterator[Finding]:
    """Every rule that ``scenario`` breaks. ``broken`` fields (``section.field``) are known to be wrong.

    Unknown names come first; rules that need an entry of the catalog are silent about a name it lacks.
    """
    unknown = list(_run(NAME_CHECKS, view(scenario, broken)))
    yield from unknown
    seen = view(scenario, {*broken, *(finding.fields[0] for finding in unknown)})
    yield from _run(COMMON_RULES, seen)
    yield from _run(_rules_of_the_family(seen), seen)


def _rules_of_the_family(scenario: Scenario) -> tuple[Check, ...]:
    """Rules of an unknown model too: those that need the model are silent about it."""
    try:
        return RECOMMENDER_RULES if machine.recommender(scenario) is not None else TRANSFORMER_RULES
    except Undecided:
        return TRANSFORMER_RULES


def _run(checks: Iterable[Check], scenario: Scenario) -> Iterator[Finding]:
    for check in checks:
        try:
            yield from check(scenario)
        except Undecided:
            continue
