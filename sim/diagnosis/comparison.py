"""A user's rccl-tests log beside the prediction: each size normal, low or suspicious, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwmodels.units import format_quantity
from sim.collective import (
    CollectiveError,
    CollectiveMachine,
    CollectiveTable,
    collective_kind,
    collective_machine,
    predict_sizes,
)
from sim.diagnosis.cause import CERTAIN, LIKELY, Cause
from sim.diagnosis.collective_rules import causes
from sim.diagnosis.curve import LOW_LARGE, Curve, Point
from sim.interop import RcclLog, RcclTable, read_log
from sim.interop.bus_bandwidth import bus_factor
from sim.interop.rccl_rows import RcclRow

NORMAL, LOW, SUSPICIOUS = "normal", "low", "suspicious"


@dataclass(frozen=True)
class ComparedRow:
    """One size: ``causes`` are keys of the comparison's causes, the likeliest first."""

    line: int
    size_bytes: int
    predicted_s: float
    measured_s: float
    predicted_busbw_Bps: float
    measured_busbw_Bps: float
    verdict: str
    causes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "measured_time_s": self.measured_s,
            "measured_busbw_Bps": self.measured_busbw_Bps,
            "verdict": self.verdict,
            "causes": list(self.causes),
        }


@dataclass(frozen=True)
class Comparison:
    """``predicted`` has the sizes of the log, row by row."""

    log: str
    predicted: CollectiveTable
    rows: tuple[ComparedRow, ...]
    causes: tuple[Cause, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The prediction's JSON with what was measured beside each row."""
        content = self.predicted.to_dict()
        rows = [p | m.to_dict() for p, m in zip(content["rows"], self.rows, strict=True)]
        verdicts = {v: sum(row.verdict == v for row in self.rows) for v in (NORMAL, LOW, SUSPICIOUS)}
        return content | {
            "log": self.log,
            "rows": rows,
            "verdicts": verdicts,
            "causes": [cause.to_dict() for cause in self.causes],
            "warnings": [*content["warnings"], *self.warnings],
        }


def compare_collective(
    op: str,
    log: str | Path,
    *,
    node: str,
    nodes: int = 1,
    gpus: int | None = None,
    stack: str | None = None,
) -> Comparison:
    """The log of ``op`` against the prediction for the named machine, at the sizes of the log.

    Raises ``LogError`` for a log that cannot be read, ``CollectiveError`` for one of another collective
    or of more ranks than the machine has.
    """
    kind = collective_kind(op)
    machine = collective_machine(node, nodes, gpus, stack)
    found = read_log(log)
    if not isinstance(found, RcclLog):
        raise CollectiveError(f"{log}: is output of {found.format}: a log of rccl-tests is due here")
    return compare(kind, machine, _table(found, kind), found)


def compare(kind: str, machine: CollectiveMachine, table: RcclTable, log: RcclLog) -> Comparison:
    if table.ranks is not None and table.ranks > machine.ranks:
        raise CollectiveError(
            f"{log.path}:{table.line}: the log has {table.ranks} ranks, {machine.nodes} x {machine.node.name} "
            f"have {machine.ranks}: give --nodes {-(-table.ranks // machine.node.gpus)}"
        )
    rows = _timed(kind, table, table.ranks or machine.ranks)
    if not rows:
        raise CollectiveError(f"{log.path}:{table.line}: no row with a time or bandwidth is left to compare")
    predicted = predict_sizes(kind, machine, [row.size_bytes for row, _, _ in rows])
    curve = _curve(kind, machine, table, rows)
    found = _causes(curve, table, rows)
    compared = tuple(
        _compared(point, curve, found, predicted.rows[i].busbw_Bps, table.odd_rows)
        for i, point in enumerate(curve.points)
    )
    others = [t for t in log.tables if t is not table]
    warnings = [*table.contradictions, *table.warnings]
    warnings += [
        f"{log.path}:{t.line}: another table ({t.collective or 'unknown'}) is left out" for t in others
    ]
    if table.ranks is None:
        warnings.append(
            f"{log.path}:{table.line}: how many ranks took part cannot be told: {machine.ranks} are taken"
        )
    return Comparison(log.path, predicted, compared, found, tuple(warnings))


_Timed = tuple[RcclRow, float, float | None]


def _table(log: RcclLog, kind: str) -> RcclTable:
    for table in log.tables:
        if table.collective in (kind, None):
            return table
    found = ", ".join(dict.fromkeys(str(table.collective) for table in log.tables))
    raise CollectiveError(f"{log.path}:{log.tables[0].line}: the log is of {found}, not of {kind}")


def _timed(kind: str, table: RcclTable, ranks: int) -> list[_Timed]:
    """Rows by size with the time that was asked for (out-of-place) and its twin."""
    factor, timed = bus_factor(kind, ranks), []
    for row in sorted(table.rows, key=lambda row: (row.size_bytes, row.line)):
        times = [half.time_s for half in row.halves]
        first = times[0] if times[0] is not None else row.time_s(factor)
        if first is not None and first > 0 and row.size_bytes > 0:
            timed.append((row, first, times[1] if len(times) > 1 else None))
    return timed


def _curve(kind: str, machine: CollectiveMachine, table: RcclTable, rows: list[_Timed]) -> Curve:
    factor = bus_factor(kind, machine.ranks)
    plateau = _plateau(kind, machine)
    points = []
    for row, measured, twin in rows:
        seconds = machine.seconds(kind, row.size_bytes)
        points.append(
            Point(
                line=row.line,
                size_bytes=row.size_bytes,
                measured_s=measured,
                twin_s=twin,
                predicted_s=seconds,
                share=row.size_bytes / seconds * factor / plateau,
                protocol=row.protocol,
            )
        )
    return Curve(machine, kind, tuple(points), table.launch)


def _plateau(kind: str, machine: CollectiveMachine) -> float:
    """Predicted bus bandwidth of 64 GiB, where every curve is flat."""
    size = 2.0**36
    return size / machine.seconds(kind, size) * bus_factor(kind, machine.ranks)


def _causes(curve: Curve, table: RcclTable, rows: list[_Timed]) -> tuple[Cause, ...]:
    """Fewer ranks than asked come first; what else is wrong is then judged against a group of that size."""
    found: tuple[Cause, ...] = ()
    if table.ranks is not None and table.ranks < curve.machine.ranks:
        group = _group(curve.machine, table.ranks)
        judged = _curve(curve.kind, group, table, rows)
        found = (_fewer_ranks(curve, judged), *causes(judged))
    else:
        judged = curve
        found = causes(curve)
    if curve.outliers:
        found = (*found, _jitter(curve))
    return found


def _group(machine: CollectiveMachine, ranks: int) -> CollectiveMachine:
    return replace(machine, ranks=ranks, nodes=-(-ranks // machine.node.gpus))


def _fewer_ranks(curve: Curve, judged: Curve) -> Cause:
    asked, ranks = curve.machine.ranks, judged.machine.ranks
    speed = judged.large_speed
    expected = judged.expected_plateau_Bps
    words = f"the log has {ranks} ranks, the question {asked}"
    if expected is not None and speed is not None:
        scale_up = judged.machine.node.scale_up
        if scale_up.kind == "mesh" and not judged.machine.crosses_domains:
            words += f": {ranks} GPUs of a mesh share {ranks - 1} links each"
        words += f"; {format_quantity(expected, 'bandwidth', digits=3)} is normal for them, {speed:.0%} of it is reached"
    advice = f"run on all {asked} GPUs, or ask with --gpus {ranks} to judge this group by itself"
    lines = tuple(p.line for p in curve.points if p.is_low)
    return Cause("fewer-ranks", CERTAIN, words, advice, lines)


def _jitter(curve: Curve) -> Cause:
    times = [p for p in curve.points if p.line in curve.outliers]
    sizes = ", ".join(f"{p.size_bytes:,} B" for p in times[:4]) + (", …" if len(times) > 4 else "")
    return Cause(
        "jitter",
        LIKELY,
        f"{len(times)} single size(s) stand out from their twin or neighbours ({sizes}): noise of one measurement",
        "repeat with more iterations (-n 100); look for other jobs, interrupts and clock changes",
        tuple(p.line for p in times),
    )


def _compared(
    point: Point, curve: Curve, found: tuple[Cause, ...], predicted_Bps: float, odd_rows: tuple[int, ...]
) -> ComparedRow:
    named = tuple(cause.key for cause in found if point.line in cause.lines)
    if point.line in curve.outliers:
        verdict, named = SUSPICIOUS, ("jitter",)
    elif point.is_low or (named and point.speed < LOW_LARGE):
        verdict, named = LOW, named or ("unexplained",)
    elif point.line in odd_rows:
        verdict, named = SUSPICIOUS, ("contradiction",)
    elif point.is_fast:
        verdict, named = SUSPICIOUS, ("faster-than-the-machine",)
    else:
        verdict, named = NORMAL, ()
    return ComparedRow(
        line=point.line,
        size_bytes=point.size_bytes,
        predicted_s=point.predicted_s,
        measured_s=point.measured_s,
        predicted_busbw_Bps=predicted_Bps,
        measured_busbw_Bps=curve.bus_Bps(point),
        verdict=verdict,
        causes=named,
    )
