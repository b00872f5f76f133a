"""A Scenario back as YAML, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import yaml
from pydantic import BaseModel

from sim.scenario.fields import Quantity
from sim.scenario.inline_model import inline_fields
from sim.scenario.inline_recommender import recommender_fields
from sim.scenario.schema import RecomputeSpec, Scenario
from sim.scenario.yaml_scalars import NumberTooLong, resolve
from sim.workload.architecture import Architecture
from sim.workload.recommender import Recommender

HASH_CHARACTERS = 12

_BASE_UNITS = {"power": "W", "bytes": "B", "bandwidth": "B/s", "frequency": "Hz", "time": "s"}


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.2 would read as something else, such as ``1e9``."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _stays_text(text) else "'")


def _stays_text(text: str) -> bool:
    try:
        return isinstance(resolve(text), str)
    except NumberTooLong:
        return False


_Dumper.add_representer(str, _text)


def to_yaml(scenario: Scenario) -> str:
    """A file that loads to an equal scenario: what was given, in our names, quantities with units."""
    return yaml.dump(_given(scenario), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def scenario_hash(scenario: Scenario) -> str:
    """First 12 hex digits of SHA-256 over the canonical JSON of all fields, defaults included.

    A default that is written out does not change it. A stack file counts by its content, wherever it lies.
    """
    fields = scenario.model_dump(mode="json")
    if scenario.cluster.stack is not None:
        fields["cluster"]["stack"] = _stack_identity(scenario.cluster.stack)
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_CHARACTERS]


def _stack_identity(name: str) -> str:
    """The name of a catalog entry; of a file its figures, which what it inherits is part of."""
    from hwmodels import catalog

    return repr(catalog.stack_from_file(name)) if catalog.is_stack_file(name) else name


def _given(section: BaseModel) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, info in type(section).model_fields.items():
        if name in section.model_fields_set:
            quantity = _quantity(info.annotation, info.metadata)
            result[info.alias or name] = _plain(getattr(section, name), quantity)
    return result


def _plain(value: Any, quantity: Quantity | None) -> Any:
    if isinstance(value, RecomputeSpec):
        return value.kind if value.layers is None else {"layers": value.layers}
    if isinstance(value, BaseModel):
        return _given(value)
    if isinstance(value, Architecture):
        return inline_fields(value)
    if isinstance(value, Recommender):
        return recommender_fields(value)
    if isinstance(value, tuple):
        return list(value)
    return _with_unit(value, quantity.dimension) if quantity is not None and value is not None else value


def _quantity(annotation: Any, metadata: list[Any]) -> Quantity | None:
    """The Quantity that marks a field, also inside ``... | None``."""
    for mark in (
        *metadata,
        *(m for part in getattr(annotation, "__args__", ()) for m in getattr(part, "__metadata__", ())),
    ):
        if isinstance(mark, Quantity):
            return mark
    return None


def _with_unit(value: float, dimension: str) -> str:
    """The shortest text that reads back as exactly ``value``."""
    from hwmodels.units import format_quantity, parse

    text = format_quantity(value, dimension, digits=6)
    return text if parse(text, dimension) == value else f"{value!r} {_BASE_UNITS[dimension]}"
