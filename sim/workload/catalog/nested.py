"""A part of an architecture that is a mapping of its own: experts, latent attention."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sim.workload.catalog.errors import nearest_first

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.workload.experts import Experts
    from sim.workload.latent_attention import LatentAttention

Part = TypeVar("Part", "Experts", "LatentAttention")

MOST = 10_000_000
"""Larger widths and counts are taken for typing errors."""

_MAY_BE_ZERO = ("shared_ffn", "dense_layers", "query_rank")


def nested(
    field: str,
    kind: type[Part],
    mapping: Mapping[str, Any],
    base: Part | None,
    problems: list[tuple[str, str]],
) -> Part | None:
    """The part that ``mapping`` describes over ``base``; None after adding what is wrong to ``problems``."""
    known = {f.name: f for f in fields(kind)}
    found = []
    for name, value in mapping.items():
        if name not in known:
            nearest = ", ".join(nearest_first(str(name), tuple(known))[:3])
            found.append((f"{field}.{name}", f"unknown field; known are {nearest}, …"))
        elif problem := _problem(name, value, flag=known[name].type == "bool"):
            found.append((f"{field}.{name}", problem))
    if base is None:
        missing = [name for name, f in known.items() if f.default is MISSING and name not in mapping]
        found += [(f"{field}.{name}", "missing") for name in missing]
    problems += found
    if found:
        return None
    return kind(**mapping) if base is None else replace(base, **mapping)


def _problem(name: str, value: object, *, flag: bool) -> str:
    if flag:
        return "" if isinstance(value, bool) else f"{value!r} is neither true nor false"
    least = 0 if name in _MAY_BE_ZERO else 1
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{value!r} is not a whole number"
    return "" if least <= value <= MOST else f"{value} is not between {least} and {MOST}"
