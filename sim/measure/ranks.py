"""The processes of a collective: those that a launcher started (torchrun, or srun with its variables), or our own on one node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.measure.errors import MeasurementError, one_line

CPU_RANKS = 2  # enough to try the kit


@dataclass(frozen=True)
class Rank:
    """One process among ``world``; ``local`` is its GPU, ``node`` its machine."""

    rank: int
    world: int
    local: int
    node: int
    meeting_point: str  # torch's init_method

    @property
    def leads(self) -> bool:
        return self.rank == 0


Work = Callable[[Rank], None]
"""What each rank does. Processes of our own receive it pickled."""


def launched(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """This process's place according to its launcher; None when none started it.

    Raises MeasurementError when the launcher left out where ranks meet or which GPU is whose.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    missing = [name for name in ("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in environment]
    if missing:
        raise MeasurementError(
            f"RANK is set but {', '.join(missing)} is not: start the ranks with torchrun, or set all of RANK, "
            "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"
        )
    rank, world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    per_node = int(environment.get("LOCAL_WORLD_SIZE", world))
    return Rank(rank, world, int(environment["LOCAL_RANK"]), rank // per_node, "env://")


def ranks_here(kind: str) -> int:
    """How many ranks this machine can hold: one per GPU that torch sees."""
    import torch

    return torch.cuda.device_count() if kind == "cuda" else CPU_RANKS


def spawn(work: Work, ranks: int) -> None:
    """Runs ``work`` in ``ranks`` processes on this machine. Raises MeasurementError when one of them fails."""
    from torch.multiprocessing import ProcessExitedException, ProcessRaisedException
    from torch.multiprocessing import spawn as torch_spawn

    with tempfile.TemporaryDirectory() as folder:
        meeting_point = (Path(folder) / "ranks").as_uri()
        try:
            torch_spawn(_start, (work, ranks, meeting_point), nprocs=ranks)
        except (ProcessExitedException, ProcessRaisedException) as error:
            raise MeasurementError(f"a rank failed: {one_line(error)}") from error


def _start(rank: int, work: Work, world: int, meeting_point: str) -> None:
    work(Rank(rank, world, rank, 0, meeting_point))
