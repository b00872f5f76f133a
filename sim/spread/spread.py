"""Many steps of one job: percentiles of step time, the rank that decides, and what healthy devices would gain."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.engine import every_rank
from sim.engine.critical_path import critical_path
from sim.engine.grid import Grid, Vector
from sim.program import COMPUTE, Program
from sim.results import Gain, StepSpread
from sim.scenario.variability import VariabilitySpec
from sim.spread.durations import Base, Durations
from sim.spread.places import Places

VALUES_AT_ONCE = 500_000  # trials × ranks of a role held in one array: bounds memory
PERCENTILES = {"p05": 5.0, "p50": 50.0, "p95": 95.0, "p99": 99.0}
STEP_STREAM = 2**31  # seeds of what a whole step shares lie beyond those of trials


def step_spread(
    program: Program, bases: Sequence[Base], places: Places, asked: VariabilitySpec, seed: int
) -> StepSpread:
    """Percentiles over ``asked.trials`` steps; ``bases`` are machines that differ by chance, taken in turn.

    Deterministic for a seed. Every trial draws from generators of its own: the same trial with a healthy device differs
    by that device alone.
    """
    return _Spread(program, tuple(bases), places, asked, seed).result()


@dataclass(frozen=True)
class _Spread:
    program: Program
    bases: tuple[Base, ...]
    places: Places
    asked: VariabilitySpec
    seed: int

    def result(self) -> StepSpread:
        own = self._steps(self.asked)
        steps_s = own * self._noise + self._stalls
        return StepSpread(
            trials=self.trials,
            nominal_s=self.bases[0].timeline.makespan_s,
            mean_s=float(steps_s.mean()),
            standard_error_s=_standard_error(steps_s),
            percentiles_s={name: float(np.percentile(steps_s, p)) for name, p in PERCENTILES.items()},
            decider=self._decider(int(np.argsort(own, kind="stable")[self.trials // 2])),
            gains=tuple(self._gains(own)),
        )

    @property
    def trials(self) -> int:
        """One step says it all where nothing is random."""
        chance = self.asked.random or len(self.bases) > 1
        return self.asked.trials if chance else 1

    @cached_property
    def grid(self) -> Grid:
        return every_rank.program_grid(self.program)

    @cached_property
    def _noise(self) -> Vector:
        draw = np.random.default_rng([self.seed, STEP_STREAM])
        return np.maximum(0.1, draw.normal(1.0, self.asked.step_noise, self.trials))

    @cached_property
    def _stalls(self) -> Vector:
        """Seconds lost to stalls; a longer step meets more of them."""
        draw = np.random.default_rng([self.seed, STEP_STREAM + 1])
        if self.asked.stall_s is None:
            return np.zeros(self.trials)
        rate = self.asked.stalls_per_hour / 3600.0 * self.bases[0].timeline.makespan_s
        count = draw.poisson(rate, self.trials)
        return np.where(count > 0, draw.gamma(np.maximum(count, 1), self.asked.stall_s), 0.0)

    def _steps(self, asked: VariabilitySpec, *, left_out: int | None = None, spare: bool = False) -> Vector:
        """Seconds of each trial, what all ranks share left out; shape (trials,)."""
        steps_s = np.empty(self.trials)
        for turn, base in enumerate(self.bases[: self.trials]):
            mine = range(turn, self.trials, len(self.bases))
            size = max(1, VALUES_AT_ONCE // self.places.ranks)
            for first in range(0, len(mine), size):
                some = mine[first : first + size]
                drawn = self._durations(base, some, asked, left_out=left_out, spare=spare)
                steps_s[list(some)] = every_rank.run(self.program, self.grid, drawn).makespan_s
        return steps_s

    def _durations(
        self,
        base: Base,
        trials: Sequence[int],
        asked: VariabilitySpec,
        *,
        left_out: int | None = None,
        spare: bool = False,
    ) -> Durations:
        return Durations(
            base, self.grid, self.places, asked, self.seed, trials, left_out=left_out, spare=spare
        )

    def _decider(self, trial: int) -> str:
        """The rank that the critical path of a trial spends most time on, in words."""
        base = self.bases[trial % len(self.bases)]
        drawn = self._durations(base, (trial,), self.asked)
        path = critical_path(every_rank.run(self.program, self.grid, drawn, keep=True))
        seconds: Counter[tuple[int, int]] = Counter()
        for link in path:
            seconds[link.task.role, link.rank] += link.seconds  # type: ignore[assignment]  # counts seconds
        (role, rank), most = max(seconds.items(), key=lambda item: (item[1], (-item[0][0], -item[0][1])))
        whole = sum(seconds.values())
        waits = sum(link.seconds for link in path if link.task.stream != COMPUTE)
        words = f"{self.places.words(role, rank)} holds {most / whole:.0%} of the critical path of the median step"
        return f"{words}; {waits / whole:.0%} of it is communication" if waits > 0.0 else words

    def _gains(self, own: Vector) -> list[Gain]:
        """What the same steps would gain with one device healthy, dearest first."""
        found = []
        for number, device in enumerate(self.asked.slow):
            what = f"GPU {device.gpu}" if device.gpu is not None else f"NIC {device.nic}"
            healthy = self._steps(self.asked, left_out=number)
            found.append(_gain(f"{what} of node {device.node} at full speed", own - healthy))
        if self.asked.gpu_sigma:
            spare = self._steps(_without_slow(self.asked), spare=True)
            without = self._steps(_without_slow(self.asked)) if self.asked.slow else own
            found.append(_gain("an average GPU in place of the slowest one of the draw", without - spare))
        return sorted(found, key=lambda gain: -gain.seconds)


def _without_slow(asked: VariabilitySpec) -> VariabilitySpec:
    """The same draws without the devices that are known to be slow."""
    return asked.model_copy(update={"slow": ()})


def _gain(what: str, seconds: Vector) -> Gain:
    return Gain(what, float(seconds.mean()), _standard_error(seconds))


def _standard_error(values: Vector) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0
