"""Do the ranges hold what was measured? Each published run is judged without itself, and its kind's spread without its group.

What is hidden, so that no run vouches for itself: its own configuration where the ledger says what error to expect of
its kin; its whole group (``sim.range.evidence.GROUP``) where the ledger says how far such runs surprise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from sim.ledger.score import ScoredRun
from sim.ledger.summary import Configuration
from sim.range import KINDS, Case, Evidence, LogRange, Residual
from sim.range.evidence import GROUP, UNTUNED, expected


@dataclass(frozen=True)
class Judge:
    """Judges runs by evidence that they have no part in."""

    evidence: Evidence
    _others: dict[tuple[object, ...], Evidence] = field(default_factory=dict, repr=False, compare=False)

    def log_range(self, run: ScoredRun) -> LogRange | None:
        """The range that ``run`` would have been given, had it not been published."""
        if run.case is None:
            return None
        near = self.evidence.without(lambda row: run.run.id in row.runs)
        return near.judge(run.case, self._without_group(near.kind(run.case), run.case))

    def range_90(self, run: ScoredRun) -> tuple[float, float] | None:
        """That range in the unit of the run's metric, low first; None for runs that measured no time."""
        found = self.log_range(run)
        if found is None or run.predicted_step_s is None or run.measured_step_s is None:
            return None
        low, high = (run.in_metric(seconds) for seconds in found.around(run.predicted_step_s))
        return None if low is None or high is None else (min(low, high), max(low, high))

    def as_kind(self, kind: str, row: Residual) -> LogRange | None:
        """The range of a row, were it a case of ``kind``; None when it has no kin of that kind."""
        near = self.evidence.alike(row.case)
        kin = [each for each in near.kin(kind, row.case) if each is not row]
        measured = self._without_group(kind, row.case).alike(row.case).half_width(kind)
        return LogRange(kind, expected(kin), *measured) if kin and measured is not None else None

    def _without_group(self, kind: str, case: Case) -> Evidence:
        """The evidence less the rows that err like ``case`` in what is new to a case of ``kind``."""
        tags = GROUP[kind]
        group = (tags, case.values(tags))
        if group not in self._others:
            self._others[group] = self.evidence.without(lambda row: row.case.shares(case, *tags))
        return self._others[group]


def coverage(configurations: Iterable[Configuration], judge: Judge) -> dict[str, Any]:
    """The share of check configurations inside their range; by kind, every check row put into that position."""
    checked = [c for c in configurations if c.first.run.split == "check"]
    found = [(c, judge.log_range(c.first)) for c in checked]
    inside = [(c, r.holds(math.log(1 + c.error))) for c, r in found if r is not None]
    if not inside:
        return {}
    tuned = [held for c, held in inside if c.first.case is not None and c.first.case.tuned]
    return {
        **_share([held for _, held in inside]),
        "tuned": _share(tuned),
        "kinds": {kind: entry for kind in KINDS if (entry := _kind(kind, judge))},
    }


def _kind(kind: str, judge: Judge) -> dict[str, Any]:
    rows = [
        row for row in judge.evidence.rows if row.split == "check" and row.case.tuned == (kind != UNTUNED)
    ]
    found = [(row, judged) for row in rows if (judged := judge.as_kind(kind, row)) is not None]
    if not found:
        return {}
    held = [judged.holds(row.value) for row, judged in found]
    return {**_share(held), "half_width": math.expm1(median(judged.half_width for _, judged in found))}


def _share(held: Sequence[bool]) -> dict[str, Any]:
    return {
        "configurations": len(held),
        "inside": sum(held),
        "share": sum(held) / len(held) if held else None,
    }
