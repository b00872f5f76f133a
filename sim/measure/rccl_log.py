"""Collectives in the table that rccl-tests prints."""

from __future__ import annotations

from dataclasses import dataclass

from sim.measure.exchanges import REDUCES, bus_factor

HEADER = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"""

PROGRAMS = {"all_to_all": "alltoall_perf", "send_recv": "sendrecv_perf"}


@dataclass(frozen=True)
class RankDevice:
    node: int
    index: int
    bus_id: str | None
    name: str


@dataclass(frozen=True)
class CollectiveRow:
    kind: str
    size_bytes: int
    count: int
    ranks: int
    time_s: float
    wrong: int  # elements, over all ranks

    @property
    def algbw_Bps(self) -> float:
        return self.size_bytes / self.time_s

    @property
    def busbw_Bps(self) -> float:
        return self.algbw_Bps * bus_factor(self.kind, self.ranks)


def rccl_table(
    kind: str, rows: list[CollectiveRow], devices: list[RankDevice], *, backend: str, samples_s: float
) -> str:
    """The whole file. As many published logs, it fills one half of the columns only."""
    wrong = sum(row.wrong for row in rows)
    mean = sum(row.busbw_Bps for row in rows) / len(rows) if rows else 0.0
    smallest, largest = (rows[0].size_bytes, rows[-1].size_bytes) if rows else (0, 0)
    place = "in place, printed in the first half of the columns" if kind == "all_reduce" else "out of place"
    how = f"torch, backend {backend}, {len(devices)} ranks; {kind} runs {place}"
    lines = (
        f"# Collective test starting: {PROGRAMS.get(kind, kind + '_perf')}",
        f"# sim measure: {how}; medians over {samples_s:g} s, mean over ranks",
        f"# nThread 1 nGpus 1 minBytes {smallest} maxBytes {largest} validation: 1",
        "#",
        "# Using devices",
        *(_device(rank, device) for rank, device in enumerate(devices)),
        "#",
        HEADER,
        *(_row(row) for row in rows),
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {mean / 1e9:.6g}",
        "#",
    )
    return "\n".join(lines) + "\n"


def _device(rank: int, device: RankDevice) -> str:
    """Host names stay home: nodes are numbered. So are process ids, each its own as the processes are."""
    address = (device.bus_id or "0000:00:00").split(".")[0]
    return f"#  Rank {rank:2d} Group  0 Pid {rank + 1:6d} on HOST{device.node} device {device.index:2d} [{address}] {device.name}"


def _row(row: CollectiveRow) -> str:
    redop = "sum" if row.kind in REDUCES else "none"
    return (
        f"{row.size_bytes:12d}  {row.count:12d}  {'float':>8}  {redop:>6}  {-1:6d} {_microseconds(row.time_s):>7} "
        f"{row.algbw_Bps / 1e9:7.2f} {row.busbw_Bps / 1e9:7.2f} {row.wrong:6d}"
    )


def _microseconds(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:.0f}" if us >= 1e4 else f"{us:.1f}" if us >= 1e2 else f"{us:.2f}"
