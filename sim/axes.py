"""The order in which axes of parallelism are laid over the ranks: where neighbours along each of them sit."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

AXES = ("tp", "cp", "ep", "dp", "pp")
"""Default order, neighbours first, as Megatron-LM has it (``--order``, megatron/core/parallel_state.py)."""


@dataclass(frozen=True)
class Axes:
    """Axes with their sizes, that of neighbouring ranks first.

    Rank r has index ``r // stride(axis) % size(axis)`` along an axis.
    """

    sizes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(order: tuple[str, ...], **sizes: int) -> Axes:
        """Axes of ``order`` that ``sizes`` names; the others do not exist in this view of the ranks."""
        return Axes(tuple((axis, sizes[axis]) for axis in order if axis in sizes))

    def size(self, axis: str) -> int:
        return dict(self.sizes)[axis]

    def stride(self, axis: str) -> int:
        """Ranks from one index of ``axis`` to the next."""
        names = [name for name, _ in self.sizes]
        return prod(size for _, size in self.sizes[: names.index(axis)])

    def between(self, one: str, other: str) -> tuple[str, ...]:
        """Axes above size 1 that lie between two others."""
        names = [name for name, _ in self.sizes]
        low, high = sorted((names.index(one), names.index(other)))
        return tuple(name for name, size in self.sizes[low + 1 : high] if size > 1)

    def index(self, rank: int, axis: str) -> int:
        return rank // self.stride(axis) % self.size(axis)


def whole_order(order: tuple[str, ...]) -> tuple[str, ...]:
    """``order`` with the axes that it leaves out behind the others."""
    return order + tuple(axis for axis in AXES if axis not in order)
