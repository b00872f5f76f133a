"""Measures collectives by size, in every rank at once; the first rank writes one rccl-tests table per collective."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.measure.device import Device
from sim.measure.exchanges import KINDS, Exchange, count_of, size_of
from sim.measure.ranks import Rank
from sim.measure.rccl_log import CollectiveRow, RankDevice, rccl_table
from sim.measure.stopwatch import Stopwatch, clock_of

Say = Callable[[str], None]

SIZES = {  # first, last, factor
    ("cuda", False): (2**10, 2**32, 2),
    ("cuda", True): (2**16, 2**28, 8),
    ("cpu", False): (2**10, 2**22, 4),
    ("cpu", True): (2**10, 2**18, 16),
}


@dataclass(frozen=True)
class CollectiveJob:
    """What every rank does. It travels to processes of our own, so ``say`` must be a function of a module."""

    folder: Path
    kind: str  # of the device
    seconds: float
    quick: bool
    say: Say

    def __call__(self, rank: Rank) -> None:
        import torch.distributed as dist

        device = Device(self.kind, rank.local if self.kind == "cuda" else 0)
        device.claim()
        dist.init_process_group(
            backend_of(self.kind),
            init_method=rank.meeting_point,
            rank=rank.rank,
            world_size=rank.world,
            device_id=device.handle if device.on_gpu else None,
        )
        try:
            self._measure(rank, device)
        finally:
            dist.destroy_process_group()

    def _measure(self, rank: Rank, device: Device) -> None:
        devices = _devices(rank, device)
        stopwatch = Stopwatch(clock_of(device), self.seconds, lambda s: _largest(s, device))
        for kind in KINDS:
            rows = []
            for count in self._counts(kind, rank, device):
                row = _row(kind, count, rank, device, stopwatch)
                rows.append(row)
                if rank.leads:
                    self.say(f"{kind} {row.size_bytes} B: {row.busbw_Bps / 1e9:.4g} GB/s bus")
            if rank.leads:
                table = rccl_table(kind, rows, devices, backend=backend_of(self.kind), samples_s=self.seconds)
                (self.folder / file_of(kind)).write_text(table, encoding="utf-8")

    def _counts(self, kind: str, rank: Rank, device: Device) -> Iterator[int]:
        """Same on every rank: by the least free memory of all."""
        first, last, factor = SIZES[self.kind, self.quick]
        room = -_largest(-float(device.free_bytes), device) / (1 if device.on_gpu else rank.world)
        size = first
        while size <= last and size < room / 4:  # source, result and the numbers they are checked with
            count = count_of(kind, size, rank.world)
            if count:
                yield count
            size *= factor


def backend_of(kind: str) -> str:
    """torch calls RCCL nccl too."""
    return "nccl" if kind == "cuda" else "gloo"


def file_of(kind: str) -> str:
    return f"{kind}.txt"


def _row(kind: str, count: int, rank: Rank, device: Device, stopwatch: Stopwatch) -> CollectiveRow:
    """Checks one run, then times many; the time is the mean over ranks, as rccl-tests reports."""
    exchange = Exchange.of(kind, count, rank, device)
    exchange.fill()
    exchange.run()
    device.synchronize()
    wrong = round(_sum(float(exchange.wrong()), device))
    median_s = stopwatch.time(exchange.run).median_s
    time_s = _sum(median_s, device) / rank.world
    return CollectiveRow(kind, size_of(kind, count, rank.world), count, rank.world, time_s, wrong)


def _devices(rank: Rank, device: Device) -> list[RankDevice]:
    import torch.distributed as dist

    found: list[RankDevice | None] = [None] * rank.world
    dist.all_gather_object(found, RankDevice(rank.node, rank.local, device.bus_id, device.name))
    return [item for item in found if item is not None]


def _largest(value: float, device: Device) -> float:
    import torch.distributed as dist

    return _reduced(value, device, dist.ReduceOp.MAX)


def _sum(value: float, device: Device) -> float:
    import torch.distributed as dist

    return _reduced(value, device, dist.ReduceOp.SUM)


def _reduced(value: float, device: Device, operation: object) -> float:
    import torch
    import torch.distributed as dist

    box = torch.tensor([value], dtype=torch.float64, device=device.handle)
    dist.all_reduce(box, operation)
    return float(box.item())
