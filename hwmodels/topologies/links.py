"""Runs of like links, and the contract of a network between endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NONE = -1
"""Padding where a path has fewer links than the widest of its kind."""


@dataclass(frozen=True)
class LinkBlock:
    """Directed links of one tier with consecutive ids. ``source`` and ``target`` are node ids; capacity in
    bytes/s and latency in s are one number or one per link."""

    tier: str
    source: Ints
    target: Ints
    capacity_Bps: float | Floats
    latency_s: float


@dataclass(frozen=True)
class Trunks:
    """Groups of parallel links that packet spraying loads evenly: ``count`` links from id ``first``.

    Where every flow is sprayed, all links of a trunk always carry the same, so that one number stands for
    them and a sprayed flow needs no entry per cable.
    """

    first: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.first)


class ScaleOut(Protocol):
    """A network between ``endpoints`` (NICs), built on links with ids from ``first_link``.

    Paths are matrices of link ids, one row per pair of endpoints, padded with ``NONE``. A path is chosen by
    a number from 0 to below ``path_counts``; the network does the arithmetic and stores no table.
    """

    def switches(self) -> tuple[tuple[str, int], ...]:
        """Names of the switch tiers and how many switches each has, in the order of their node ids."""

    def blocks(self, first_nic: int, first_switch: int) -> Iterator[LinkBlock]:
        """All links in the order of their ids, given the node ids of the first NIC and switch."""

    def access_switches(self, endpoints: Ints) -> Ints:
        """The switch (from 0) at which each endpoint enters the network."""

    def reachable(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """Whether links lead from each source to its target."""

    def path_counts(self, source: Ints, target: Ints, *, non_minimal: bool) -> Ints:
        """Paths of equal cost between endpoints (with ``non_minimal``: the detours instead)."""

    def paths(self, source: Ints, target: Ints, choice: Ints, *, non_minimal: bool) -> Ints:
        """Links of path number ``choice`` of each pair."""

    def trunks(self) -> Trunks:
        """Groups of links that spraying loads evenly, empty where the network is not that regular."""

    def trunk_paths(self, source: Ints, target: Ints, first_trunk: int) -> Ints:
        """Paths in which each bundle of parallel links is one id from ``first_trunk``."""
