"""Least squares of a few positive parameters: Levenberg and Marquardt's method on their logarithms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

STEP = 1e-4  # of a logarithm, for the derivatives
TOLERANCE = 1e-9  # relative gain at which the search ends
MOST_ROUNDS = 200
LEAST_DAMPING, MOST_DAMPING = 1e-9, 1e9


def fitted(
    residuals: Callable[[tuple[float, ...]], Sequence[float]], start: Sequence[float]
) -> tuple[float, ...]:
    """Parameters near ``start`` (all positive) with the smallest sum of squared ``residuals``.

    A local minimum; residuals may have kinks (the fastest of several protocols), where the damping
    shortens the step until it gains.
    """
    import numpy as np

    def at(logs: np.ndarray) -> np.ndarray:
        return np.asarray(residuals(tuple(np.exp(logs))), dtype=float)

    logs = np.log(np.asarray(start, dtype=float))
    now, damping = at(logs), 1e-3
    for _ in range(MOST_ROUNDS):
        slopes = np.array([(at(logs + step) - now) / STEP for step in STEP * np.eye(len(logs))]).T
        normal, downhill = slopes.T @ slopes, -slopes.T @ now
        gain = 0.0
        while damping < MOST_DAMPING:
            trial = logs + np.linalg.solve(normal + damping * np.eye(len(logs)), downhill)
            then = at(trial)
            gain = float(now @ now - then @ then)
            if gain > 0.0:
                logs, now, damping = trial, then, max(damping / 10.0, LEAST_DAMPING)
                break
            damping *= 10.0
        if gain <= TOLERANCE * float(now @ now):
            break
    return tuple(float(value) for value in np.exp(logs))
