"""Efficiency of scale-up links, NICs and sends, from rccl-tests and TransferBench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from hwmodels.node import Node
from hwmodels.stack import StackProfile
from sim.calibrate.evidence import Evidence
from sim.calibrate.fit import Accuracy, Fitted, Timing, mean_absolute_error, solve
from sim.collective import KINDS, CollectiveMachine
from sim.interop import RcclTable
from sim.interop.bus_bandwidth import bus_factor

UP, OUT, SENDS = "scale_up_efficiency", "scale_out_efficiency", "p2p_efficiency"
FROM_SHARE = 0.5  # of the plateau: smaller messages measure latency


@dataclass(frozen=True)
class _Measured:
    """Rows of one table as (bytes, seconds)."""

    log: str
    kind: str
    ranks: int
    rows: tuple[tuple[int, float], ...]

    @property
    def large_rows(self) -> tuple[tuple[int, float], ...]:
        """Rows where bandwidth decides, in measurement."""
        plateau = max(size / seconds for size, seconds in self.rows)
        return tuple(row for row in self.rows if row[0] / row[1] >= FROM_SHARE * plateau)

    def machine(self, node: Node, stack: StackProfile) -> CollectiveMachine:
        return CollectiveMachine(node, -(-self.ranks // node.gpus), self.ranks, stack)

    def figure(self, node: Node) -> str:
        """The figure that this table measures."""
        if self.ranks <= node.scale_up.domain_gpus:
            return UP
        return SENDS if self.kind == "send" else OUT


def fit_collectives(evidence: Evidence, node: Node, stack: StackProfile) -> Iterator[Fitted]:
    """Scale-up first: collectives over nodes go over its links too."""
    tables = list(_tables(evidence))
    for figure in (UP, OUT, SENDS):
        chosen = [table for table in tables if table.figure(node) == figure]
        fitted = _fit(figure, chosen, node, stack, evidence) if chosen else None
        if fitted is None and figure == UP and not chosen:
            fitted = _from_copies(evidence, node, stack)
        if fitted is not None:
            stack = replace(stack, **{figure: fitted.value})  # type: ignore[arg-type]  # a float field by its name
            yield fitted


def collective_accuracy(
    evidence: Evidence, node: Node, before: StackProfile, after: StackProfile
) -> Iterator[Accuracy]:
    """The sizes where bandwidth decides, and all of a table."""
    for table in _tables(evidence, tell=False):
        for rows, what in ((table.large_rows, "large sizes"), (table.rows, "all sizes")):
            errors = [
                mean_absolute_error(
                    [table.machine(node, stack).seconds(table.kind, size) for size, _ in rows],
                    [seconds for _, seconds in rows],
                )
                for stack in (before, after)
            ]
            yield Accuracy(table.log, f"{table.kind} on {table.ranks} ranks, {what}", len(rows), *errors)
    yield from _copy_accuracy(evidence, node, before, after)


def _fit(
    figure: str, tables: list[_Measured], node: Node, stack: StackProfile, evidence: Evidence
) -> Fitted | None:
    timings = [timing for table in tables for timing in _timings(figure, table, node, stack)]
    sensitive = [timing for timing in timings if timing.is_sensitive]
    if not sensitive:
        why = "no size is large enough" if not timings else "another figure limits these sizes"
        evidence.notes.append(f"{figure}: not fitted: {why}")
        return None
    value = solve(sensitive)
    if value is None:
        evidence.notes.append(
            f"{figure}: not fitted: measured bandwidths are far from what {node.name} can do"
        )
        return None
    what = ", ".join(dict.fromkeys(f"{t.kind} on {t.ranks} ranks" for t in tables))
    note = f"median over {len(sensitive)} sizes of {what}"
    return Fitted(figure, value, getattr(stack, figure), tuple(dict.fromkeys(t.log for t in tables)), note)


def _timings(figure: str, table: _Measured, node: Node, stack: StackProfile) -> Iterator[Timing]:
    for size, seconds in table.large_rows:
        yield Timing(seconds, _predicted(figure, table, node, stack, size))


def _predicted(
    figure: str, table: _Measured, node: Node, stack: StackProfile, size: int
) -> Callable[[float], float]:
    def seconds(value: float) -> float:
        changed = replace(stack, **{figure: value})  # type: ignore[arg-type]  # a float field by its name
        return table.machine(node, changed).seconds(table.kind, size)

    return seconds


def _tables(evidence: Evidence, *, tell: bool = True) -> Iterator[_Measured]:
    for log, table in evidence.collectives:
        if tell and table.launch.single_process:
            evidence.notes.append(
                f"{log}:{table.line}: one process drove all GPUs: its small sizes are the host's"
            )
        kind, ranks = table.collective or "", table.ranks or 0
        rows = _rows(table, kind, ranks)
        if kind in KINDS and ranks > 1 and rows:
            yield _Measured(log, kind, ranks, rows)
        elif tell:
            evidence.notes.append(f"{log}:{table.line}: {kind} is not modelled: the table is left out")


def _rows(table: RcclTable, kind: str, ranks: int) -> tuple[tuple[int, float], ...]:
    """The faster half of each row: a hiccup of one half is then no measurement."""
    factor = bus_factor(kind, ranks)
    timed = ((row.size_bytes, row.time_s(factor)) for row in table.rows if row.size_bytes > 0)
    return tuple((size, seconds) for size, seconds in timed if seconds)


def _from_copies(evidence: Evidence, node: Node, stack: StackProfile) -> Fitted | None:
    """All-pairs copies over a mesh measure its links; over a switch they measure single copies, not collectives."""
    rates = [log.average_gpu_Bps for log in evidence.copies if log.average_gpu_Bps]
    if not rates:
        return None
    if node.scale_up.kind != "mesh":
        evidence.notes.append(
            f"{UP}: not fitted: copies between pairs say little of collectives over a {node.scale_up.kind}"
        )
        return None
    value = median(rates) / node.scale_up.usable_bandwidth_Bps
    note = f"all-pairs copies of TransferBench over the {node.scale_up.usable_bandwidth_Bps / 1e9:g} GB/s of a link"
    return Fitted(UP, value, stack.scale_up_efficiency, tuple(log.path for log in evidence.copies), note)


def _copy_accuracy(
    evidence: Evidence, node: Node, before: StackProfile, after: StackProfile
) -> Iterator[Accuracy]:
    """Average rate of one link of a mesh."""
    if node.scale_up.kind != "mesh":
        return
    for log in evidence.copies:
        if log.average_gpu_Bps:
            errors = [
                mean_absolute_error(
                    [1 / (node.scale_up.usable_bandwidth_Bps * stack.scale_up_efficiency)],
                    [1 / log.average_gpu_Bps],
                )
                for stack in (before, after)
            ]
            yield Accuracy(log.path, "copies between all pairs", 1, *errors)
