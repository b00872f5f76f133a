"""Seconds of every task on every rank in some trials: prices, stretched by what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.causes import COMMUNICATION
from sim.engine.grid import Grid, Vector
from sim.engine.timeline import Timeline
from sim.ops import Collective, TokenExchange
from sim.pricing import Price
from sim.program import COMPUTE, Task
from sim.scenario.variability import VariabilitySpec
from sim.spread.places import Places

SLOWEST = 0.1  # no draw makes a time shorter than this part of it
OUTSIDE = ("host", "data")  # what no GPU's speed changes


@dataclass(frozen=True)
class Split:
    """Seconds of one task by what they depend on."""

    compute_s: float
    crossing_s: float  # communication between scale-up domains
    inside_s: float  # communication within one
    other_s: float


@dataclass(frozen=True)
class Base:
    """One machine as planned: what every trial stretches."""

    timeline: Timeline
    prices: tuple[Price, ...]

    def split(self, task: Task) -> Split:
        """Transfers that met others on a link keep what that cost them."""
        price = self.prices[task.id]
        spent = dict.fromkeys(("compute", "crossing", "inside", "other"), 0.0)
        crossing = {w.cause for w in task.work if _crosses(w.op)}
        for part in price.parts:
            if part.cause in COMMUNICATION or task.stream != COMPUTE:
                spent["crossing" if part.cause in crossing else "inside"] += part.seconds
            else:
                spent["other" if part.cause in OUTSIDE else "compute"] += part.seconds
        longer = 1.0
        if task.stream != COMPUTE and price.seconds:
            longer = (self.timeline.end_s[task.id] - self.timeline.start_s[task.id]) / price.seconds
        return Split(spent["compute"], spent["crossing"] * longer, spent["inside"] * longer, spent["other"])


def _crosses(op: object) -> bool:
    return isinstance(op, Collective | TokenExchange) and op.group.size > op.group.per_domain


class Durations:
    """Seconds of a task as an array of shape (trials, *grid.shape) or one that broadcasts to it.

    ``trials`` are their numbers: each draws from a generator of its own, so that one alone can be played again. A
    device of ``left_out`` counts as healthy; ``spare`` replaces the slowest GPU of each trial by an average one.
    """

    def __init__(
        self,
        base: Base,
        grid: Grid,
        places: Places,
        asked: VariabilitySpec,
        seed: int,
        trials: Sequence[int],
        *,
        left_out: int | None = None,
        spare: bool = False,
    ) -> None:
        self.base, self.grid, self.places, self.asked = base, grid, places, asked
        self._left_out, self._spare = left_out, spare
        self._generators = [np.random.default_rng([seed, trial]) for trial in trials]
        self._known: dict[tuple[int, int], Vector | float] = {}
        self._work: dict[int, Vector] = {}
        self.gpu_times = self._gpu_times()  # drawn first, whatever is asked for first

    def _gpu_times(self) -> Vector:
        """Time of each GPU over that of an average one, shape (trials, roles, ranks)."""
        shape = (self.places.roles, self.places.ranks)
        times = np.stack([_normal(g, self.asked.gpu_sigma, shape) for g in self._generators])
        if self._spare:
            flat = times.reshape(len(times), -1)
            flat[np.arange(len(flat)), flat.argmax(axis=1)] = 1.0
        for number, device in enumerate(self.asked.slow):
            if device.gpu is not None and number != self._left_out:
                role, rank = self.places.of_gpu(device.node, device.gpu)
                times[:, role, rank] /= device.speed
        return times

    @cached_property
    def nic_times(self) -> Vector:
        """Time of each GPU's share of its NIC over that of a healthy one, shape (roles, ranks)."""
        times = np.ones((self.places.roles, self.places.ranks))
        for number, device in enumerate(self.asked.slow):
            if device.nic is not None and number != self._left_out:
                for role, rank in self.places.of_nic(device.node, device.nic):
                    times[role, rank] /= device.speed
        return times

    def __call__(self, task: Task) -> Vector | float:
        fresh = (self.asked.kernel_jitter, self.asked.collective_jitter, self.asked.work_sigma)
        if any(fresh):
            return self._of(task)
        key = (task.role, id(self.base.prices[task.id]))
        if task.stream != COMPUTE:  # contention may stretch each transfer in its own way
            key = (task.role, -1 - task.id)
        if key not in self._known:
            self._known[key] = self._of(task)
        return self._known[key]

    def _of(self, task: Task) -> Vector | float:
        split = self.base.split(task)
        compute: Vector | float = split.compute_s
        if compute:
            compute = compute * self._compute_times(task)
        sent: Vector | float = split.inside_s
        if split.crossing_s:
            nics = self.nic_times[task.role]
            sent = sent + split.crossing_s * (1.0 if np.all(nics == 1.0) else self.grid.spread(nics[None]))
        if self.asked.collective_jitter and split.inside_s + split.crossing_s > 0.0:
            sent = sent * self._delays()
        return compute + sent + split.other_s

    def _compute_times(self, task: Task) -> Vector | float:
        times: Vector | float = 1.0
        if self.asked.gpu_sigma or any(device.gpu is not None for device in self.asked.slow):
            times = self.grid.spread(self.gpu_times[:, task.role])
        if self.asked.work_sigma and task.kind != "optimizer":
            times = times * self._work_of(task.microbatch)
        if self.asked.kernel_jitter:
            times = times * self._drawn(self.asked.kernel_jitter)
        return times

    def _work_of(self, microbatch: int) -> Vector:
        """Work of one micro-batch over the mean: the same for all ranks and stages of a replica."""
        if microbatch not in self._work:
            replica_of = np.array(self.base.timeline.program.replica_of)
            size = int(replica_of.max()) + 1
            drawn = np.stack([_normal(g, self.asked.work_sigma, (size,)) for g in self._generators])
            by_rank = drawn[:, replica_of]
            self._work[microbatch] = self.grid.spread(by_rank)
        return self._work[microbatch]

    def _drawn(self, sigma: float) -> Vector:
        shape = (self.places.ranks,)
        return self.grid.spread(np.stack([_normal(g, sigma, shape) for g in self._generators]))

    def _delays(self) -> Vector:
        mean, size = self.asked.collective_jitter, self.places.ranks
        return self.grid.spread(1.0 + np.stack([g.exponential(mean, size) for g in self._generators]))


def _normal(generator: np.random.Generator, sigma: float, shape: tuple[int, ...]) -> Vector:
    if not sigma:
        return np.ones(shape)
    times: Vector = np.maximum(SLOWEST, generator.normal(1.0, sigma, shape))
    return times
