"""How much the steps of one published job differ: one noise for all jobs, and stalls that each job's own mean tells.

A step takes p50 · (1 + σ·z) plus, now and then, a stall. z is standard normal and common to all ranks; a stall has an
exponential length. σ and the mean length are one figure for all jobs. How often a job stalls follows from what its
mean lies above its median, without its one longest step: rare hiccups of ten seconds are no law (see
docs/models.md). Scenarios say the same in their ``variability`` section.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import yaml
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SIGMAS = np.arange(0.003, 0.0101, 0.0005)  # candidates for σ
LENGTHS_S = np.geomspace(0.05, 20.0, 60)  # and for a job's own mean stall
TELLING = 1e-3  # excess over the median, as part of it, from which a job says how long stalls are,
PRINTED_S = 2e-3  # where it is well above the digits that logs print


@dataclass(frozen=True)
class JobSteps:
    """Percentiles of the step times of one job, seconds."""

    id: str
    gpus: int
    steps: int
    mean_s: float
    p05_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float | None = None  # not logged: no longest step to leave out

    @property
    def excess_s(self) -> float:
        """What stalls add to a step on average."""
        longest = 0.0 if self.max_s is None else (self.max_s - self.p50_s) / self.steps
        return max(0.0, self.mean_s - self.p50_s - longest)


@dataclass(frozen=True)
class StepNoise:
    """``sigma`` of the body, as part of the step; ``stall_s``: mean length of a stall (0: there are none)."""

    sigma: float
    stall_s: float

    def ratios(self, job: JobSteps) -> tuple[float, float]:
        """p95 and p99 of ``job`` over its median."""
        stall = self.stall_s / job.p50_s
        often = min(1.0, job.excess_s / self.stall_s) if self.stall_s else 0.0
        above = _above(self.sigma, stall, often)
        middle, p95, p99 = np.interp([-0.5, -0.05, -0.01], -above, _grid())
        return float((1.0 + p95) / (1.0 + middle)), float((1.0 + p99) / (1.0 + middle))

    def errors(self, job: JobSteps) -> tuple[float, float]:
        """Predicted over measured, minus one, of p95 and p99."""
        p95, p99 = self.ratios(job)
        return p95 * job.p50_s / job.p95_s - 1.0, p99 * job.p50_s / job.p99_s - 1.0


def without_noise(_: Sequence[JobSteps]) -> StepNoise:
    """All steps alike."""
    return StepNoise(1e-7, 0.0)


def without_stalls(jobs: Sequence[JobSteps]) -> StepNoise:
    """The body alone: the σ that errs least."""
    return _least(jobs, 0.0)


def with_stalls(jobs: Sequence[JobSteps]) -> StepNoise:
    """σ as above, beside stalls whose mean length is the median of what the jobs that stall say by their p99."""
    sigma = without_stalls(jobs).sigma
    telling = [job for job in jobs if job.excess_s >= max(PRINTED_S, TELLING * job.p50_s)]
    return _least(jobs, median(_own_length(job, sigma) for job in telling))


def left_out_errors(
    jobs: Sequence[JobSteps], fit: Callable[[Sequence[JobSteps]], StepNoise]
) -> tuple[float, float]:
    """Mean absolute error of p95 and of p99, each job predicted by what the others say."""
    found = [fit([other for other in jobs if other is not job]).errors(job) for job in jobs]
    p95, p99 = np.abs(np.array(found)).mean(axis=0)
    return float(p95), float(p99)


def published_steps(folder: Path) -> tuple[JobSteps, ...]:
    """All jobs of the files of ``folder``, in their order."""
    files = sorted(folder.glob("*.yaml"))
    runs = [run for file in files for run in yaml.safe_load(file.read_text(encoding="utf-8"))["runs"]]
    return tuple(JobSteps(**run) for run in runs)


def _least(jobs: Sequence[JobSteps], stall_s: float) -> StepNoise:
    candidates = (StepNoise(float(sigma), stall_s) for sigma in SIGMAS)
    return min(candidates, key=lambda noise: _error(noise, jobs))


def _error(noise: StepNoise, jobs: Sequence[JobSteps]) -> float:
    return float(np.abs([noise.errors(job) for job in jobs]).mean())


def _own_length(job: JobSteps, sigma: float) -> float:
    """The longest mean stall that gives the job's own p99: short frequent ones might too, but are no stalls."""
    lengths = (float(length) for length in LENGTHS_S[::-1])
    return next((x for x in lengths if StepNoise(sigma, x).errors(job)[1] >= 0.0), float(LENGTHS_S[0]))


@cache
def _grid() -> Vector:
    """Step times over the median, minus one: fine in the body, wide in the tail."""
    return np.concatenate([np.linspace(-0.03, 0.05, 1500), np.geomspace(0.0501, 60.0, 900)])


def _above(sigma: float, stall: float, often: float) -> Vector:
    """Part of all steps above each point of the grid: a normal body, and some of it plus an exponential stall."""
    from scipy.special import ndtr

    x = _grid()
    body: Vector = ndtr(-x / sigma)
    if not often:
        return body
    shift = np.minimum(-x / stall + 0.5 * (sigma / stall) ** 2, 50.0)
    stalled: Vector = np.minimum(1.0, body + np.exp(shift) * ndtr(x / sigma - sigma / stall))
    above: Vector = (1.0 - often) * body + often * stalled
    return above
