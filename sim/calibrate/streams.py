"""Stream efficiency, from BabelStream."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from hwmodels.gpu import Gpu
from hwmodels.stack import StackProfile
from sim.calibrate.evidence import Evidence
from sim.calibrate.fit import Accuracy, Fitted, mean_absolute_error
from sim.interop.babelstream import StreamRow

KERNELS = ("Copy", "Mul", "Add", "Triad")
"""Kernels that write what they read, as the streaming kernels of training do. Dot only reads."""


def fit_streams(evidence: Evidence, gpu: Gpu, stack: StackProfile) -> Iterator[Fitted]:
    rates = [row.bandwidth_Bps for log in evidence.streams for row in _rows(log.rows)]
    if not rates:
        return
    value = median(rates) / gpu.hbm_bandwidth_Bps
    if value > 1.0:
        evidence.notes.append(
            f"stream_efficiency: not fitted: {median(rates) / 1e12:.3g} TB/s is more than the "
            f"{gpu.hbm_bandwidth_Bps / 1e12:.3g} TB/s of a {gpu.name}: the sum of several GPUs?"
        )
        return
    logs = tuple(log.path for log in evidence.streams)
    note = f"median of {', '.join(KERNELS)} ({len(rates)} rows) over the HBM peak"
    yield Fitted("stream_efficiency", value, stack.stream_efficiency, logs, note)


def stream_accuracy(
    evidence: Evidence, gpu: Gpu, before: StackProfile, after: StackProfile
) -> Iterator[Accuracy]:
    for log in evidence.streams:
        rows = _rows(log.rows)
        if rows:
            errors = [
                mean_absolute_error(
                    [1 / (gpu.hbm_bandwidth_Bps * stack.stream_efficiency)] * len(rows),
                    [1 / row.bandwidth_Bps for row in rows],
                )
                for stack in (before, after)
            ]
            yield Accuracy(log.path, "HBM streams", len(rows), *errors)


def _rows(rows: tuple[StreamRow, ...]) -> list[StreamRow]:
    return [row for row in rows if row.kernel in KERNELS]
