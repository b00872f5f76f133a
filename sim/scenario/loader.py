"""From a file to a Scenario: read, inherit, override, validate, check. All errors come at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sim.scenario.aliases import check_local_batch
from sim.scenario.diagnosis import diagnose
from sim.scenario.errors import Problem, ScenarioError
from sim.scenario.fields import FROM_DOCUMENT
from sim.scenario.finding import Finding
from sim.scenario.inheritance import Source, inherit, read_file, read_text
from sim.scenario.inline_model import UNION_TAGS
from sim.scenario.overrides import apply_overrides
from sim.scenario.partial import without
from sim.scenario.rules import broken_rules
from sim.scenario.schema import Scenario
from sim.scenario.yaml_document import Block, Node, locate, plain
from sim.scenario.yaml_document import Path as FieldPath


def load(path: str | Path, overrides: Iterable[str] = (), *, within: Path | None = None) -> Scenario:
    """The scenario in ``path``, with ``field=value`` overrides applied in order.

    ``within`` confines ``extends`` to one folder. Raises ScenarioError with every located error.
    """
    return _scenario(lambda problems: read_file(path, problems, within), overrides)


def loads(
    text: str,
    overrides: Iterable[str] = (),
    *,
    source: str = "scenario.yaml",
    folder: Path | None = None,
    within: Path | None = None,
) -> Scenario:
    """The scenario in ``text``. ``source`` names it in errors; ``extends`` is relative to ``folder``.

    Without ``folder`` the text may not extend anything. Raises ScenarioError with every located error.
    """
    origin = Source(source, folder, within)
    return _scenario(lambda problems: read_text(text, origin, problems), overrides)


def load_node(
    node: Node,
    overrides: Iterable[str] = (),
    *,
    source: str,
    folder: Path | None = None,
    within: Path | None = None,
) -> Scenario:
    """The scenario at ``node`` of a larger YAML document (a measured run), errors located in that document."""
    origin = Source(source, folder, within)
    return _scenario(lambda problems: inherit(node, origin, problems), overrides)


def _scenario(read: Callable[[list[Problem]], Block], overrides: Iterable[str]) -> Scenario:
    problems: list[Problem] = []
    try:
        root = apply_overrides(read(problems), overrides, problems)
    except ScenarioError as error:
        raise ScenarioError([*problems, *error.problems]) from None
    problems += check_local_batch(root)
    scenario, broken, errors = _validated(root)
    problems += errors
    problems += [_located(finding, root) for finding in broken_rules(scenario, broken)]
    if problems:
        raise ScenarioError(problems)
    return scenario


def _validated(root: Block) -> tuple[Scenario, frozenset[str], list[Problem]]:
    """The scenario; where fields are wrong, one with placeholders there, their names and the problems."""
    data: dict[str, Any] = plain(root)
    try:
        return Scenario.model_validate(data, context=FROM_DOCUMENT), frozenset(), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    wrong = frozenset(tuple(_steps(detail["loc"])[:2]) for detail in details)
    scenario = Scenario.model_validate(without(data, wrong), context=FROM_DOCUMENT)
    return (
        scenario,
        frozenset(_attribute(*path) for path in wrong),
        [diagnose(detail, root) for detail in details if _is_cause(detail, details)],
    )


def _is_cause(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Not one that only follows from another error: a default that depends on a wrong field, a list left empty."""
    location = detail["loc"]
    inner = any(other["loc"][: len(location)] == location for other in details if other is not detail)
    return detail["type"] != "default_factory_not_called" and not (detail["type"] == "too_short" and inner)


def _steps(location: tuple[int | str, ...]) -> list[str]:
    steps = [str(step) for step in location if step not in UNION_TAGS]
    return steps[:1] if steps[0] == "model" else steps


def _attribute(section: str, key: str = "") -> str:
    """``cluster`` and ``power_cap`` as the attribute ``cluster.power_cap_W``."""
    info = Scenario.model_fields.get(section)
    fields = getattr(info.annotation, "model_fields", {}) if info is not None else {}
    names = [name for name, field in fields.items() if field.alias == key]
    return f"{section}.{names[0] if names else key}" if key else section


def _located(finding: Finding, root: Block) -> Problem:
    """At the first of the finding's fields that was written; failing all, where the first would be."""
    for field in finding.fields:
        position, node = locate(root, _path(field))
        if node is not None:
            return Problem(position, field, finding.message)
    return Problem(locate(root, _path(finding.fields[0]))[0], finding.fields[0], finding.message)


def _path(field: str) -> FieldPath:
    return tuple(int(step) if step.isdigit() else step for step in field.split("."))
