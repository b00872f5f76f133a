"""What can go wrong with a catalog: a name it does not know, a file that is not an entry."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TITLES = {"gpu": "GPU", "nic": "NIC", "stack": "software stack"}
_MOST_NEAREST = 5


class CatalogError(ValueError):
    """A catalog file that is not a valid entry; the message names file and key."""


class UnknownName(ValueError):
    """``name`` is no ``kind`` of the catalog; ``nearest`` holds known names, the most similar first."""

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...], hint: str = "") -> None:
        self.kind = kind
        self.name = name
        self.nearest = nearest
        self.hint = hint
        known = f"known: {', '.join(nearest[:_MOST_NEAREST])}" if nearest else "none is known"
        more = f" and {len(nearest) - _MOST_NEAREST} more" if len(nearest) > _MOST_NEAREST else ""
        text = f"unknown {_TITLES.get(kind, kind)} {name!r}: {hint}; " if hint else ""
        super().__init__((text or f"unknown {_TITLES.get(kind, kind)} {_cut(name)!r}; ") + known + more)


def nearest_first(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """All ``known`` names, those most like ``name`` first; ties in alphabetical order."""
    wanted = _cut(name).lower()

    def distance(candidate: str) -> tuple[float, str]:
        alike = SequenceMatcher(None, wanted, candidate).ratio()
        return (-alike - (0.5 if wanted and candidate.startswith(wanted) else 0.0), candidate)

    return tuple(sorted(known, key=distance))


def _cut(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}…"
