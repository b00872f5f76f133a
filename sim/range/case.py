"""What a prediction is about, as far as it decides how much is known: machine, software, model, size, plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwmodels.stack import StackProfile
    from sim.scenario import Scenario


@dataclass(frozen=True)
class Case:
    """Tags of one scenario. ``tuned`` is False where the software is known to be slow."""

    gpu: str  # catalog name; "mi355x, changed" for one that nobody has built
    stack: str
    tuned: bool
    model: str  # with "+lora" where adapters are trained
    experts: bool
    precision: str
    gpus: int
    tp: int
    cp: int
    pp: int
    ep: int
    schedule: str  # "none" without a pipeline
    data_sharding: str  # of a recommender's tables: planned, two-level, ...
    sequence_length: int
    family: str = "transformer"

    @staticmethod
    def of(
        scenario: Scenario,
        gpu: str,
        stack: StackProfile,
        *,
        family: str,
        model: str,
        experts: bool,
        sharding: str,
    ) -> Case:
        """The tags of ``scenario`` run by ``stack`` on ``gpu``; the rest is what its family says of it."""
        training, plan, changes = scenario.training, scenario.parallelism, scenario.cluster.gpu
        rebuilt = changes is not None and changes.model_copy(update={"hbm_bytes": None}) != type(changes)()
        return Case(
            gpu=f"{gpu}, changed" if rebuilt else gpu,
            stack=stack.name if scenario.cluster.degraded is None else f"{stack.name}, degraded",
            tuned=stack.tuned,
            model=model + ("" if training.lora is None else "+lora"),
            experts=experts,
            precision=training.precision,
            gpus=scenario.gpus,
            tp=plan.tp,
            cp=plan.cp,
            pp=plan.pp,
            ep=plan.ep,
            schedule=plan.schedule if plan.pp > 1 else "none",
            data_sharding=sharding,
            sequence_length=training.sequence_length,
            family=family,
        )

    @cached_property
    def plan(self) -> str:
        """How the job is spread, whatever the degrees: ``tp pp 1f1b zero-1``."""
        axes = [axis for axis in ("tp", "cp", "pp", "ep") if getattr(self, axis) > 1]
        return " ".join([*axes, *([self.schedule] if self.pp > 1 else []), self.data_sharding])

    def values(self, tags: tuple[str, ...]) -> tuple[object, ...]:
        """The values of ``tags``, in their order."""
        return _reader(tags)(self)

    def shares(self, other: Case, *tags: str) -> bool:
        """Whether both have the same value of every one of ``tags``."""
        return self.values(tags) == other.values(tags)


@cache
def _reader(tags: tuple[str, ...]) -> Callable[[Case], tuple[object, ...]]:
    """Reads ``tags`` of a case: ledgers ask for the same few millions of times."""
    if len(tags) > 1:
        return attrgetter(*tags)
    return lambda case: tuple(getattr(case, tag) for tag in tags)
