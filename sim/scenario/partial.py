"""A scenario with holes: what can still be checked when some fields are wrong.

A check that reads a wrong field ends with ``Undecided`` and says nothing; all others still speak, so
that every error of a file comes at once.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, cast

from pydantic import BaseModel

from sim.scenario.schema import Scenario

PLACEHOLDERS: dict[str, Any] = {
    "model": "placeholder",
    "cluster": {"node": "placeholder", "nodes": 1},
    "training": {"sequence_length": 1, "global_batch": 1, "precision": "bf16"},
}
"""Stand in for wrong values, never read: the view refuses."""


class Undecided(Exception):
    """A check needs a field that is wrong."""


def without(data: dict[str, Any], broken: AbstractSet[tuple[str, ...]]) -> dict[str, Any]:
    """``data`` with the fields of ``broken`` ((section,) or (section, field)) taken out, required ones stood in."""
    result = {name: dict(value) if isinstance(value, dict) else value for name, value in data.items()}
    for path in sorted(broken):
        holder = result if len(path) == 1 else result.get(path[0])
        if isinstance(holder, dict):
            holder.pop(path[-1], None)
    for section, value in PLACEHOLDERS.items():
        if section not in result:
            result[section] = value
        elif isinstance(value, dict) and isinstance(result[section], dict):
            result[section] = {**value, **result[section]}
    return result


def view(scenario: Scenario, broken: AbstractSet[str]) -> Scenario:
    """``scenario`` as seen by a check: reading a field of ``broken`` raises Undecided."""
    return cast(Scenario, _View(scenario, "", broken))


class _View:
    """Stands for a model or one of its sections. Its properties are computed through the view too."""

    def __init__(self, model: BaseModel, path: str, broken: AbstractSet[str]) -> None:
        self._model = model
        self._path = path
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        if path in self._broken or self._path in self._broken:
            raise Undecided(path)
        described = getattr(type(self._model), name, None)
        if isinstance(described, property) and described.fget is not None and not name.startswith("_"):
            return described.fget(self)
        value = getattr(self._model, name)
        return _View(value, path, self._broken) if isinstance(value, BaseModel) and not self._path else value
