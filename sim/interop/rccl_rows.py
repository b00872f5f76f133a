"""One row of an rccl-tests table."""

from __future__ import annotations

from dataclasses import dataclass

from sim.interop.printed import Printed


@dataclass(frozen=True)
class HalfRow:
    """The out-of-place or in-place half of a row, as printed (microseconds, GB/s) and in SI units."""

    time_us: Printed | None
    algbw_GBps: Printed | None
    busbw_GBps: Printed | None
    wrong: int | None  # elements; None where results were not checked

    @property
    def time_s(self) -> float | None:
        return None if self.time_us is None else self.time_us.value * 1e-6

    @property
    def algbw_Bps(self) -> float | None:
        return None if self.algbw_GBps is None else self.algbw_GBps.value * 1e9

    @property
    def busbw_Bps(self) -> float | None:
        return None if self.busbw_GBps is None else self.busbw_GBps.value * 1e9


@dataclass(frozen=True)
class RcclRow:
    """One message size. ``count`` is per rank where ranks hold parts (all-gather, reduce-scatter, all-to-all)."""

    line: int
    size_bytes: int
    count: int | None
    dtype: str
    redop: str
    root: int | None
    out_of_place: HalfRow | None
    in_place: HalfRow | None
    algorithm: str = ""
    protocol: str = ""
    channels: int | None = None
    variant: str = ""

    @property
    def halves(self) -> tuple[HalfRow, ...]:
        return tuple(half for half in (self.out_of_place, self.in_place) if half is not None)

    @property
    def wrong(self) -> bool:
        return any(half.wrong for half in self.halves)

    def time_s(self, factor: float | None = None) -> float | None:
        """The faster half's time; from the bus bandwidth and ``factor`` (bus over algorithm) where no time was printed."""
        times = [half.time_s for half in self.halves if half.time_s is not None]
        if times:
            return min(times)
        buses = [half.busbw_Bps for half in self.halves if half.busbw_Bps]
        if not buses or factor is None:
            return None
        return self.size_bytes * factor / max(buses)
