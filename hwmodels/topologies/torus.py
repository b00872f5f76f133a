"""Torus: nodes as vertices, each joined to its two neighbours along every dimension.

A node's NICs sit on one router whose cables run to the neighbours. Routes are minimal and turn in a fixed
order of dimensions; a path number names the order and, at half the circumference, the direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from hwmodels.fabric_spec import NIC_LEAF, TORUS, FabricError
from hwmodels.topologies.links import NONE, Ints, LinkBlock, Trunks


@dataclass(frozen=True)
class Torus:
    """Links and routes of a torus of ``dims`` nodes with ``rails`` NICs each.

    A cable carries ``cable_Bps`` per direction. Router link (vertex, dimension, up or down) has the id
    ``first + (vertex x dimensions + dimension) x 2 + direction``.
    """

    dims: tuple[int, ...]
    rails: int
    nic_Bps: float
    cable_Bps: float
    first_link: int
    nic_latency_s: float
    hop_latency_s: float

    @property
    def _endpoints(self) -> int:
        return math.prod(self.dims) * self.rails

    @property
    def _strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.dims[d + 1 :]) for d in range(len(self.dims)))

    def switches(self) -> tuple[tuple[str, int], ...]:
        return (("router", math.prod(self.dims)),)

    def access_switches(self, endpoints: Ints) -> Ints:
        return endpoints // self.rails

    def reachable(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        del target  # everyone reaches everyone
        return np.ones(len(source), dtype=bool)

    def blocks(self, first_nic: int, first_switch: int) -> Iterator[LinkBlock]:
        nic = np.arange(self._endpoints)
        router = first_switch + self.access_switches(nic)
        yield LinkBlock(NIC_LEAF, first_nic + nic, router, self.nic_Bps, self.nic_latency_s)
        yield LinkBlock(NIC_LEAF, router, first_nic + nic, self.nic_Bps, self.nic_latency_s)
        vertex = np.arange(math.prod(self.dims))
        ends = [
            self._step(vertex, dimension, np.full_like(vertex, way))
            for dimension in range(len(self.dims))
            for way in (1, -1)
        ]
        target = np.stack(ends, axis=1).ravel()
        source = np.repeat(vertex, 2 * len(self.dims))
        yield LinkBlock(
            TORUS, first_switch + source, first_switch + target, self.cable_Bps, self.hop_latency_s
        )

    def _step(self, vertex: Ints, dimension: int, way: Ints) -> Ints:
        """The vertex one cable further along ``dimension``."""
        size, stride = self.dims[dimension], self._strides[dimension]
        place = vertex // stride % size
        return vertex + ((place + way) % size - place) * stride

    def path_counts(self, source: Ints, target: Ints, *, non_minimal: bool) -> Ints:
        if non_minimal:
            raise FabricError("detours exist in a dragonfly only: leave out non_minimal")
        ways = math.factorial(len(self.dims)) * 2 ** len(self.dims)
        return np.where(self.access_switches(source) == self.access_switches(target), 1, ways)

    def paths(self, source: Ints, target: Ints, choice: Ints, *, non_minimal: bool) -> Ints:
        del non_minimal  # path_counts refuses it
        links = np.full((len(source), 2 + sum(size // 2 for size in self.dims)), NONE)
        links[:, 0] = self.first_link + source
        links[:, -1] = self.first_link + self._endpoints + target
        turns, order = choice % 2 ** len(self.dims), choice // 2 ** len(self.dims)
        for number, dimensions in enumerate(permutations(range(len(self.dims)))):
            rows = np.flatnonzero(order == number)
            if len(rows):
                at, goal = self.access_switches(source[rows]), self.access_switches(target[rows])
                links[rows, 1:-1] = self._walk(at, goal, dimensions, turns[rows])
        return links

    def _walk(self, at: Ints, goal: Ints, dimensions: tuple[int, ...], turns: Ints) -> Ints:
        """Router links from vertex ``at`` to ``goal``; bit d of ``turns`` breaks the tie in dimension d."""
        first = self.first_link + 2 * self._endpoints
        columns = []
        for dimension in dimensions:
            size, stride = self.dims[dimension], self._strides[dimension]
            ahead = (goal // stride - at // stride) % size
            tie = (2 * ahead == size) & (turns >> dimension & 1 == 1)
            way = np.where((2 * ahead <= size) & ~tie, 1, -1)
            left = np.minimum(ahead, size - ahead)
            for _ in range(size // 2):
                link = first + (at * len(self.dims) + dimension) * 2 + (way < 0)
                columns.append(np.where(left > 0, link, NONE))
                at = np.where(left > 0, self._step(at, dimension, way), at)
                left = left - 1
        return np.stack(columns, axis=1) if columns else np.empty((len(at), 0), np.int64)

    def trunks(self) -> Trunks:
        return Trunks(np.empty(0, np.int64), np.empty(0, np.int64))

    def trunk_paths(self, source: Ints, target: Ints, first_trunk: int) -> Ints:
        raise NotImplementedError("the cables of a torus carry different loads")
