"""GEMM efficiency by number format, from hipblaslt-bench and mamf-finder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from hwmodels.gpu import Gpu
from hwmodels.kernels import KernelModel
from hwmodels.power import achievable_flops
from hwmodels.stack import StackProfile
from sim.calibrate.evidence import Evidence
from sim.calibrate.fit import Accuracy, Fitted, Timing, mean_absolute_error, solve
from sim.calibrate.machine import gpus_named
from sim.interop.gemm_row import GemmRow

FILLS = 0.5

_Rows = list[tuple[str, GemmRow]]


def fit_gemms(evidence: Evidence, gpu: Gpu, stack: StackProfile) -> Iterator[Fitted]:
    """One figure per format that has rows bound by compute. Rows that are not used are told in the notes."""
    for dtype, rows in _usable(evidence, gpu).items():
        timings = [Timing(row.time_s, _seconds(gpu, stack, row)) for _, row in rows]
        sensitive = [
            t for t, (_, row) in zip(timings, rows, strict=True) if t.is_sensitive and _fills(t, row, gpu)
        ]
        if not sensitive:
            evidence.notes.append(
                f"gemm_efficiency.{dtype}: not fitted: all {len(rows)} GEMMs are small or bound by HBM"
            )
            continue
        value = solve(sensitive)
        if value is None:
            evidence.notes.append(
                f"gemm_efficiency.{dtype}: not fitted: measured rates are far from what a {gpu.name} can do"
            )
            continue
        logs = tuple(dict.fromkeys(log for log, _ in rows))
        note = f"median over {len(sensitive)} GEMMs that fill the GPU"
        yield Fitted(f"gemm_efficiency.{dtype}", value, stack.gemm_efficiency.get(dtype), logs, note)


def gemm_accuracy(
    evidence: Evidence, gpu: Gpu, before: StackProfile, after: StackProfile
) -> Iterator[Accuracy]:
    """All rows of a format that both profiles price, those bound by HBM too."""
    by_log: dict[tuple[str, str], list[GemmRow]] = defaultdict(list)
    for dtype, rows in _usable(evidence, gpu, tell=False).items():
        for log, row in rows:
            by_log[log, dtype].append(row)
    for (log, dtype), members in by_log.items():
        if dtype not in before.gemm_efficiency or dtype not in after.gemm_efficiency:
            continue
        errors = [
            mean_absolute_error(
                [KernelModel(gpu, stack).gemm_s(r.m, r.n, r.k, dtype) for r in members],
                [r.time_s for r in members],
            )
            for stack in (before, after)
        ]
        yield Accuracy(log, f"GEMM {dtype}", len(members), *errors)


def _fills(timing: Timing, row: GemmRow, gpu: Gpu) -> bool:
    """Whether the shape can reach half of the GPU's best rate: a small one says more of tiles than of the stack."""
    return row.flop / timing.predicted_s(1.0) >= FILLS * achievable_flops(gpu, row.dtype)


def _seconds(gpu: Gpu, stack: StackProfile, row: GemmRow) -> Callable[[float], float]:
    def seconds(efficiency: float) -> float:
        changed = replace(stack, gemm_efficiency={**stack.gemm_efficiency, row.dtype: efficiency})
        return KernelModel(gpu, changed).gemm_s(row.m, row.n, row.k, row.dtype)

    return seconds


def _usable(evidence: Evidence, gpu: Gpu, *, tell: bool = True) -> dict[str, _Rows]:
    """Rows by format: single GEMMs on this GPU in a format that it has."""
    usable: dict[str, _Rows] = defaultdict(list)
    for log in evidence.gemms:
        left: Counter[str] = Counter()
        for row in log.rows:
            reason = _unusable(row, gpu)
            if reason:
                left[reason] += 1
            else:
                usable[row.dtype].append((log.path, row))
        if tell:
            evidence.notes += [
                f"{log.path}: {count} rows left out: {reason}" for reason, count in left.items()
            ]
    return usable


def _unusable(row: GemmRow, gpu: Gpu) -> str:
    if row.gpu and gpu.name not in gpus_named(row.gpu):
        return f"measured on another GPU than {gpu.name}"
    if row.batch > 1 or row.grouped:
        return "batched or grouped"
    if not row.dtype:
        return "the number format is not named"
    if row.dtype not in gpu.achievable_flops or row.dtype not in gpu.peak_flops:
        return f"{gpu.name} has no {row.dtype} matrix rate"
    return ""
