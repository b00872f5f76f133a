"""The collectives that are measured: what each moves, how torch runs it, and what must come out.

Element i of rank r's source holds (i mod 13) + (r mod 7). Every sum of such numbers is exact in fp32, so the
result is known to the last bit and any other value is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.measure.device import Device
from sim.measure.ranks import Rank

if TYPE_CHECKING:
    import torch

ELEMENT_BYTES = 4  # float, rccl-tests' own default
CHUNK = 2**24  # elements that are filled or checked at once

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
REDUCES = ("all_reduce", "reduce_scatter")


def bus_factor(kind: str, ranks: int) -> float:
    """Bus over algorithm bandwidth (rccl-tests, doc/PERFORMANCE.md)."""
    if kind == "send_recv":
        return 1.0
    return (ranks - 1) / ranks * (2.0 if kind == "all_reduce" else 1.0)


def count_of(kind: str, size: int, ranks: int) -> int:
    """Elements in rccl-tests' ``count`` column: of one rank's part, or of the whole buffer where there are no parts."""
    return size // ELEMENT_BYTES if kind in {"all_reduce", "send_recv"} else size // (ELEMENT_BYTES * ranks)


def size_of(kind: str, count: int, ranks: int) -> int:
    """Bytes in the ``size`` column: the larger of a rank's source and result."""
    return count * ELEMENT_BYTES * (1 if kind in {"all_reduce", "send_recv"} else ranks)


@dataclass(frozen=True)
class Exchange:
    """One collective of ``count`` elements (see ``count_of``), with this rank's buffers."""

    kind: str
    count: int
    rank: Rank
    source: torch.Tensor
    result: torch.Tensor

    @classmethod
    def of(cls, kind: str, count: int, rank: Rank, device: Device) -> Exchange:
        import torch

        whole = count * rank.world
        sizes = {
            "all_gather": (count, whole),
            "reduce_scatter": (whole, count),
            "all_to_all": (whole, whole),
            "send_recv": (count, count),
        }
        if kind == "all_reduce":  # torch reduces in place
            buffer = torch.empty(count, device=device.handle)
            return cls(kind, count, rank, buffer, buffer)
        source, result = (torch.zeros(n, device=device.handle) for n in sizes[kind])
        return cls(kind, count, rank, source, result)

    def fill(self) -> None:
        for part, at in _chunks(self.source):
            part.copy_(at % 13 + self.rank.rank % 7)

    def run(self, call: int = 0) -> None:
        import torch.distributed as dist

        del call
        if self.kind == "all_reduce":
            dist.all_reduce(self.result)
        elif self.kind == "all_gather":
            _named(dist, "all_gather_single", "all_gather_into_tensor")(self.result, self.source)
        elif self.kind == "reduce_scatter":
            _named(dist, "reduce_scatter_single", "reduce_scatter_tensor")(self.result, self.source)
        elif self.kind == "all_to_all":
            dist.all_to_all_single(self.result, self.source)
        else:
            self._shift()

    def wrong(self) -> int:
        """Elements of this rank's result that differ from what must come out after ``fill`` and one ``run``."""
        return sum(int((part != self._expected(at)).sum()) for part, at in _chunks(self.result))

    def _shift(self) -> None:
        """Everyone sends to the next rank and receives from the one before, as rccl-tests' sendrecv does."""
        import torch.distributed as dist

        following, before = (self.rank.rank + 1) % self.rank.world, (self.rank.rank - 1) % self.rank.world
        transfers = [
            dist.P2POp(dist.isend, self.source, following),
            dist.P2POp(dist.irecv, self.result, before),
        ]
        for transfer in dist.batch_isend_irecv(transfers):
            transfer.wait()

    def _expected(self, at: torch.Tensor) -> torch.Tensor:
        world, mine = self.rank.world, self.rank.rank
        if self.kind == "send_recv":
            return at % 13 + (mine - 1) % world % 7
        if self.kind in REDUCES:
            position = at + (mine * self.count if self.kind == "reduce_scatter" else 0)
            return world * (position % 13) + sum(rank % 7 for rank in range(world))
        inside, sender = at % self.count, at // self.count
        position = inside + (mine * self.count if self.kind == "all_to_all" else 0)
        return position % 13 + sender % 7


def _named(library: Any, *names: str) -> Any:
    """The first of ``names`` that this version of torch has."""
    return next(getattr(library, name) for name in names if hasattr(library, name))


def _chunks(tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Parts of ``tensor`` and the positions of their elements."""
    import torch

    for start in range(0, tensor.numel(), CHUNK):
        stop = min(start + CHUNK, tensor.numel())
        yield tensor[start:stop], torch.arange(start, stop, device=tensor.device)
