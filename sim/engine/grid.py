"""The ranks of one role as an array, cut so that communicators are axes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.ops import Group

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Arrays of shape (replicas, *shape): the first axis counts trials, the others the ranks of a role.

    An axis of length 1 stands for ranks that all have the same value; arrays are widened only where values differ.
    ``cuts`` are the distances in ranks from one index of an axis to the next, slowest axis first.
    """

    shape: tuple[int, ...]
    cuts: tuple[int, ...]

    @staticmethod
    def of(ranks: int, groups: Iterable[Group]) -> Grid:
        """The grid of a role with ``ranks`` ranks that makes axes of as many ``groups`` as nest in each other."""
        ends = {
            bound for g in groups if inside(g, ranks) for bound in (g.stage_stride, g.stage_stride * g.size)
        }
        chain = [1]
        for bound in sorted(ends | {ranks}):
            if bound > chain[-1] and bound % chain[-1] == 0 and ranks % bound == 0:
                chain.append(bound)
        cuts = tuple(reversed(chain[:-1]))
        return Grid(tuple(high // low for high, low in zip(reversed(chain), cuts, strict=False)), cuts)

    @cached_property
    def ranks(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def spread(self, by_rank: Vector) -> Vector:
        """Values of shape (replicas, ranks) as an array of this grid."""
        return by_rank.reshape(by_rank.shape[0], *self.shape)

    def flat(self, values: Vector) -> Vector:
        """The other way round: shape (replicas, ranks), constant axes written out."""
        whole = np.broadcast_to(values, (values.shape[0], *self.shape))
        return whole.reshape(values.shape[0], self.ranks)

    def together(self, values: Vector, group: Group) -> Vector:
        """Each rank gets the latest of its communicator: nobody leaves a collective before all have come."""
        axes = self._axes(group)
        if axes is None:
            return self._regrouped(values, group)
        differing = tuple(axis for axis in axes if values.shape[axis] > 1)
        return values.max(axis=differing, keepdims=True) if differing else values

    def _axes(self, group: Group) -> tuple[int, ...] | None:
        """The axes that a communicator covers; None where it does not nest in the grid."""
        low, high = group.stage_stride, group.stage_stride * group.size
        axes = tuple(i + 1 for i, cut in enumerate(self.cuts) if low <= cut < high)
        covers = np.prod([self.shape[i - 1] for i in axes], dtype=np.int64) == group.size
        return axes if covers and (not axes or self.cuts[axes[-1] - 1] == low) else None

    def _regrouped(self, values: Vector, group: Group) -> Vector:
        flat = self.flat(values)
        step = group.stage_stride
        block = (flat.shape[0], self.ranks // (group.size * step), group.size, step)
        latest = flat.reshape(block).max(axis=2, keepdims=True)
        return self.spread(np.broadcast_to(latest, block).reshape(flat.shape))


def inside(group: Group, ranks: int) -> bool:
    """Whether all members of a communicator belong to one role of ``ranks`` ranks."""
    span = group.stage_stride * group.size
    return group.size > 1 and span <= ranks and ranks % span == 0
