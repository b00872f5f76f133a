"""How samples reach the ranks: loaded beside the step before, or in line before the first forward."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sim.ops import LoadBatch
from sim.parallel.builder import Key, ProgramBuilder
from sim.program import COMPUTE, INPUT, Work

DATA = "data"  # the cause of all of it


@dataclass(frozen=True)
class Feed:
    """The loaders of one rank and the host path they share.

    ``sample_bytes`` cross the host path per sequence, at ``host_Bps`` for all ``loaders_per_host`` ranks
    of a host together (None: not a limit). A worker prepares ``samples_per_s`` (None: not a limit).
    No ``workers``: the training process loads by itself, before it computes.
    """

    sample_bytes: float = 0.0
    host_Bps: float | None = None
    samples_per_s: float | None = None
    workers: int = 1
    loaders_per_host: int = 1

    def batch(self, samples: int) -> LoadBatch:
        """Loading ``samples``, which is what one rank needs for a step."""
        return LoadBatch(
            samples=float(samples),
            samples_per_s=inf if self.samples_per_s is None else self.samples_per_s * max(1, self.workers),
            host_bytes=samples * self.sample_bytes * self.loaders_per_host,
            host_Bps=inf if self.host_Bps is None else self.host_Bps,
            background=self.workers > 0,
        )


def start(builder: ProgramBuilder, feed: Feed | None, samples: int) -> None:
    """The first stage's samples: the next step's in the background, or this step's in line."""
    if feed is None:
        return
    stream, name = (INPUT, "load the next batch") if feed.workers else (COMPUTE, "load the batch")
    builder.add(_load(), 0, stream, "input", name, (Work(feed.batch(samples), DATA),), wait_cause=DATA)


def finish(builder: ProgramBuilder, feed: Feed | None) -> None:
    """The next step cannot begin before its samples are there."""
    if feed is not None and feed.workers:
        builder.add(("ready",), 0, COMPUTE, "input", "next batch is ready", (), waits=(_load(),))


def _load() -> Key:
    return ("load",)
