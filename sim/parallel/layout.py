"""How the ranks are divided: degrees, stages, micro-batches. The answer to "who"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recompute:
    """``kind``: ``none``, ``selective`` (attention core), ``operator`` or ``full``; layers of each stage, from its first.

    ``early_stop``: recomputation ends once every saved tensor exists again, so the last linear layer
    of a block is not run twice (PyTorch's non-reentrant checkpointing).
    """

    kind: str
    layers: tuple[int, ...]  # recomputed layers per stage
    early_stop: bool = False


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism and what follows from them. ``dp`` is derived from the GPU count."""

    tp: int
    cp: int
    pp: int
    dp: int
    stage_layers: tuple[int, ...]
    micro_batch: int  # sequences
    microbatches: int  # per replica and step
    sequence_parallel: bool
    data_sharding: str  # "ddp" | "zero-1" | "fsdp"
    schedule: str  # "gpipe" | "1f1b"
    recompute: Recompute

    @property
    def gpus(self) -> int:
        return self.tp * self.cp * self.pp * self.dp

    def in_flight(self, stage: int) -> int:
        """Micro-batches whose activations ``stage`` holds at once (docs/models.md)."""
        if self.schedule == "gpipe":
            return self.microbatches
        return min(self.microbatches, self.pp - stage)
