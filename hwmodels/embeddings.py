"""Seconds for embedding kernels on one GPU: random rows, whose rate outstanding loads limit before HBM does.

A compute unit has room for so many loads at a time, and each comes back after a latency: units times clock times a
figure of the software (bytes per unit and clock) bounds the rate, whatever the memory could deliver. The figures are
the profile's (``embedding`` in ``hwmodels/catalog/stacks``):

``forward_bytes_per_clock``, ``backward_bytes_per_clock``: the bound above, by direction.
``forward_lookup``, ``backward_lookup``: seconds per lookup that no row is too short for (index, offset, segment).
``gradient_miss``: part of the gathered gradients that comes from HBM and not from a cache.
``sort_bytes``: traffic per lookup of sorting its key.
``permute_bytes_per_clock``: rate of reordering vectors, read and written.
``cache``: bytes of the last-level cache: rows of smaller tables do not come from HBM again and again.
``codec_bytes``: bytes per element of bringing vectors into the format that they travel in and back, both ends.
``id_bytes``: bytes of an id on the wire; ``pipelined_ids``: 1 where ids of the next batch travel beside a step.
``overlaps_iterations``: 1 where rows of the next batch are looked up before the dense layers are updated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hwmodels.gpu import Gpu
from hwmodels.stack import StackProfile

FIGURES = (
    "forward_bytes_per_clock",
    "backward_bytes_per_clock",
    "forward_lookup",
    "backward_lookup",
    "gradient_miss",
    "sort_bytes",
    "permute_bytes_per_clock",
    "cache",
    "codec_bytes",
    "id_bytes",
    "pipelined_ids",
    "overlaps_iterations",
)
"""What a profile must say to serve recommenders."""


@dataclass(frozen=True)
class EmbeddingModel:
    """Embedding kernels of ``stack`` on ``gpu``. Raises ``KeyError`` for a stack without embedding figures."""

    gpu: Gpu
    stack: StackProfile

    def lookup_s(self, reads: Iterable[tuple[float, float, float]], written_bytes: float) -> float:
        """Reads as (lookups, bytes, bytes of the whole table or piece), and vectors written.

        All bytes pass the units; HBM delivers those of a table that fits the cache at most once.
        """
        lookups, moved, from_hbm = 0.0, written_bytes, written_bytes
        for count, size, table_bytes in reads:
            lookups += count
            moved += size
            from_hbm += min(size, table_bytes) if table_bytes <= self._figure("cache") else size
        return self._combined_s("forward", lookups, moved, from_hbm)

    def update_s(self, lookups: float, gradient_bytes: float, distinct: float, update_bytes: float) -> float:
        """Sorting, gathering gradients and updating the distinct rows."""
        gathered = lookups * gradient_bytes * self._figure("gradient_miss")
        moved = gathered + lookups * self._figure("sort_bytes") + distinct * update_bytes
        return self._combined_s("backward", lookups, moved, moved)

    def permute_s(self, size_bytes: float) -> float:
        """Reordering ``size_bytes``, counted once for reading and once for writing by the caller."""
        rate = min(self._hbm_Bps, self._units_Bps("permute_bytes_per_clock"))
        return size_bytes / rate

    def rate_Bps(self, direction: str) -> float:
        """Bytes of rows per second: what HBM streams, or what the loads in flight fetch."""
        return min(self._hbm_Bps, self._units_Bps(f"{direction}_bytes_per_clock"))

    @property
    def _hbm_Bps(self) -> float:
        return self.gpu.hbm_bandwidth_Bps * self.stack.stream_efficiency

    def _combined_s(self, direction: str, lookups: float, moved: float, from_hbm: float) -> float:
        """Bytes and lookups are limits of the same loads, which hide each other in part: the root of squares.

        Row widths of 8 to 1024 on one GPU lie within 5 % of that; their sum misses by up to 21 % (docs/models.md).
        """
        per_byte = max(moved / self._units_Bps(f"{direction}_bytes_per_clock"), from_hbm / self._hbm_Bps)
        return math.hypot(lookups * self._figure(f"{direction}_lookup"), per_byte)

    def _units_Bps(self, figure: str) -> float:
        return self._figure(figure) * self.gpu.compute_units * self.gpu.peak_clock_Hz

    def _figure(self, name: str) -> float:
        return self.stack.embedding[name]
