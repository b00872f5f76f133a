"""A model name that is not known. The same shape as the hardware catalog's, which this room may not import."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_NEAREST = 5
_LONGEST = 60


class UnknownName(ValueError):
    """``name`` is no known ``kind``; ``nearest`` holds the known names, the most similar first."""

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...]) -> None:
        self.kind = kind
        self.name = name
        self.nearest = nearest
        more = f" and {len(nearest) - _MOST_NEAREST} more" if len(nearest) > _MOST_NEAREST else ""
        super().__init__(f"unknown {kind} {_cut(name)!r}; known: {', '.join(nearest[:_MOST_NEAREST])}{more}")


def nearest_first(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """All ``known`` names, those most like ``name`` first; ties in alphabetical order."""
    wanted = _cut(name).lower()
    return tuple(sorted(known, key=lambda known: (-SequenceMatcher(None, wanted, known).ratio(), known)))


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
