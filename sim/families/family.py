"""What every kind of model owes to a step: where one family of models ends and the common chain begins."""

from __future__ import annotations

from typing import Protocol

from sim.engine.timeline import Timeline
from sim.program import Program
from sim.results import MemoryRecord, StageMemory


class Model(Protocol):
    """A published model, as far as results name it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...


class Family(Protocol):
    """One scenario on its machine, turned into tasks.

    Pricing, the engine, attribution, ranges and results are the same for all families; only these words differ.
    """

    @property
    def name(self) -> str:
        """``transformer``, ``recommender``, …: published runs judge only their own."""
        ...

    @property
    def model(self) -> Model: ...

    @property
    def experts(self) -> bool:
        """Whether tokens are routed to experts."""
        ...

    @property
    def sharding(self) -> str:
        """How replicas or tables are spread, in one word."""
        ...

    @property
    def program(self) -> Program:
        """All tasks of one step."""
        ...

    @property
    def memory(self) -> tuple[StageMemory, ...]:
        """Memory of each role's fullest rank."""
        ...

    def memory_over_time(self, timeline: Timeline) -> tuple[MemoryRecord, ...]:
        """What each role's fullest rank has allocated through the step."""
        ...

    @property
    def counted(self) -> str:
        """What throughput counts: ``tokens`` or ``samples``."""
        ...

    @property
    def items_per_step(self) -> float:
        """How many of them one step trains on."""
        ...

    @property
    def ranks_per_role(self) -> int:
        """Ranks from the first GPU of one role of the program to that of the next."""
        ...

    @property
    def formats(self) -> tuple[str, ...]:
        """Number formats of its matrix products."""
        ...

    @property
    def stack_figures(self) -> tuple[str, ...]:
        """Figures of the software profile that only this family uses."""
        ...

    def model_flops(self, convention: str) -> float:
        """FLOPs of the model in one step, all GPUs, as MFU counts them."""
        ...

    def layout_in_words(self) -> dict[str, object]:
        """Who does what, by the names that results show."""
        ...
