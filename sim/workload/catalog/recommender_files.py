"""Recommenders by name, one YAML file per family of them. A fault in a shipped file is a ``ValueError``."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sim.workload.catalog.errors import UnknownName, nearest_first
from sim.workload.recommender import INTERACTIONS, Recommender, SequenceEncoder
from sim.workload.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT = Path(__file__).resolve().parent / "recommenders"
_OWN = {field.name for field in fields(Recommender)} - {"name", "tables"}


@cache
def recommender(name: str) -> Recommender:
    """The recommender ``name``. Raises ``UnknownName``, which lists the known ones nearest first."""
    if name not in _models():
        raise UnknownName("recommender", name, nearest_first(name, recommender_names()))
    return recommender_from_mapping(name, _models()[name])


@cache
def recommender_names() -> tuple[str, ...]:
    """All known recommenders in alphabetical order."""
    return tuple(sorted(_models()))


def recommender_from_mapping(name: str, mapping: Mapping[str, Any]) -> Recommender:
    """The recommender that ``mapping`` describes. Raises ``ValueError`` naming the model and what is wrong.

    ``dim`` is the width of all tables that give none of their own.
    """
    given = dict(mapping)
    dim, tables = given.pop("dim", None), given.pop("tables", {})
    if unknown := set(given) - _OWN:
        raise ValueError(f"{name}: unknown fields {sorted(unknown)}")
    if given.get("interaction", "dot") not in INTERACTIONS:
        raise ValueError(f"{name}: interaction {given['interaction']!r} is none of {', '.join(INTERACTIONS)}")
    for field in ("bottom", "top"):
        given[field] = tuple(given.get(field, ()))
    if isinstance(encoder := given.get("encoder"), dict):
        given["encoder"] = SequenceEncoder(**{**encoder, "content": tuple(encoder.get("content", ()))})
    try:
        rows = tuple(Table(**{"name": key, "dim": dim, **table}) for key, table in tables.items())
        return Recommender(name=name, tables=rows, **given)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


@cache
def _models() -> dict[str, dict[str, Any]]:
    """Every model of every file: the family's fields under its own."""
    models: dict[str, dict[str, Any]] = {}
    for path in sorted(_ROOT.glob("*.yaml")):
        family = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        for name, own in family["models"].items():
            if name in models:
                raise ValueError(f"{path.name}: {name} is known already")
            models[name] = {**family["family"], **own}
    return models
