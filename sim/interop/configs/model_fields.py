"""The widths that a configuration gives, as a model of the catalog where they are one, or written out."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from sim.interop.configs.draft import Draft
from sim.scenario.errors import Position
from sim.workload.architecture import Architecture
from sim.workload.catalog import (
    ArchitectureError,
    architecture,
    architecture_from_mapping,
    architecture_names,
)


def put_model(
    draft: Draft,
    fields: dict[str, Any],
    places: dict[str, Position],
    at: Position,
    hints: tuple[str, ...],
    source: str,
) -> None:
    """Puts the model with ``fields`` (None: not given) into ``draft``.

    ``hints`` choose among several models of the catalog with these widths; the first names one that it lacks.
    Widths that make no model are refused where they were written. A model that the user changes in part is
    always written out.
    """
    given = {field: value for field, value in fields.items() if value is not None}
    try:
        model = architecture_from_mapping(given)
    except ArchitectureError as error:
        for field, problem in error.problems:
            draft.refuse(problem, f"model.{field}" if field else "model", places.get(field, at))
        return
    draft.model_fields = given
    name = None if draft.overrides_within("model") else catalogued(model, hints)
    if name is not None:
        draft.put("model", name, at)
        return
    draft.put("model.name", re.sub(r"[^\w.+-]+", "-", hints[0]).strip("-")[:80] or "imported", at)
    for field, value in given.items():
        draft.put(f"model.{field}", value, places.get(field, at))
    draft.put("model.source", source[:400], at)


def catalogued(model: Architecture, hints: tuple[str, ...]) -> str | None:
    """The catalog model with the widths of ``model``, of several the one most like one of ``hints``."""
    same = [name for name in architecture_names() if _widths(architecture(name)) == _widths(model)]
    wanted = [_letters(hint) for hint in hints]

    def likeness(name: str) -> float:
        return max((SequenceMatcher(None, w, _letters(name)).ratio() for w in wanted), default=0.0)

    return max(same, key=likeness, default=None)


def same_widths(name: str, other: str) -> bool:
    """Whether two names are models of the catalog, and one and the same to a step."""
    known = architecture_names()
    return name in known and other in known and _widths(architecture(name)) == _widths(architecture(other))


def _widths(model: Architecture) -> Architecture:
    """Without what has no effect on a step: words, and the length of a table that is not there."""
    positions = model.max_positions if model.position == "learned" else 0
    return replace(model, published_parameters=None, max_positions=positions, name="", title="", source="")


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
