"""The micro-ledger: every published micro-benchmark beside what the hardware models say of it.

Errors are ln(predicted rate / measured rate): positive is too fast, whatever the source printed. A floor
(an acceptance threshold) is a lower bound: it counts only when the prediction lies below it. Rows marked
``fit`` are those that figures of the catalog or of a stack were read off; they never count as checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from hwmodels import catalog
from sim.ledger.micro_loader import load_micro
from sim.ledger.micro_machines import Machines
from sim.ledger.micro_predict import predict
from sim.ledger.micro_row import FASTER_WHEN_LARGER, Collective, Message, MicroFile, MicroRow

WORST_ROWS = 15


@dataclass(frozen=True)
class ScoredRow:
    """One row beside its prediction, both in ``row.unit``; ``failure`` says why there is none."""

    row: MicroRow
    predicted: float | None
    failure: str = ""

    @property
    def error(self) -> float | None:
        """ln(predicted rate / measured rate); None for peaks, unviolated floors and rows without a prediction."""
        if self.predicted is None or self.row.kind == "peak":
            return None
        error = math.log(self.predicted / self.row.value)
        error = error if FASTER_WHEN_LARGER[self.row.unit] else -error
        return None if self.row.kind == "floor" and error >= 0 else error

    @property
    def kernel(self) -> str:
        return self.row.subject.kernel if self.row.subject else ""

    @property
    def machine(self) -> str:
        """The GPU; for collectives that of the node, for messages the NIC."""
        subject = self.row.subject
        if subject is None:
            return ""
        if isinstance(subject, Collective):
            return catalog.node(subject.node).gpu.name
        return subject.nic if isinstance(subject, Message) else subject.gpu

    def to_dict(self) -> dict[str, Any]:
        row = self.row
        return {
            "label": row.label,
            "kernel": self.kernel,
            "machine": self.machine,
            "kind": row.kind,
            "split": row.split,
            "confidence": row.confidence,
            "unit": row.unit,
            "measured": row.value,
            "predicted": self.predicted,
            "error": self.error,
            "overhead_s": row.overhead_s,
            "issue_s": row.issue_s,
            "location": row.location,
            "source": row.source.title,
            "note": f"not predicted: {self.failure}" if self.failure else row.note,
        }


@dataclass(frozen=True)
class MicroStatistic:
    """Log errors of some rows: mean absolute, mean signed and the worst one."""

    rows: int
    mean_absolute: float
    bias: float
    worst: float  # signed
    worst_label: str

    @staticmethod
    def of(rows: Iterable[ScoredRow]) -> MicroStatistic | None:
        """None where there is nothing to average."""
        pairs = [(row.error, row.row.label) for row in rows if row.error is not None]
        if not pairs:
            return None
        errors = [error for error, _ in pairs]
        worst, label = max(pairs, key=lambda pair: abs(pair[0]))
        return MicroStatistic(len(pairs), fmean(map(abs, errors)), fmean(errors), worst, label)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "mean_absolute": self.mean_absolute,
            "bias": self.bias,
            "worst": self.worst,
            "worst_label": self.worst_label,
        }


@dataclass(frozen=True)
class MicroReport:
    """The scored micro-ledger. ``left_out`` holds rows predicted without the table or curve they are part of."""

    files: tuple[MicroFile, ...]
    rows: tuple[ScoredRow, ...]
    left_out: tuple[ScoredRow, ...]

    @property
    def measured(self) -> tuple[ScoredRow, ...]:
        return tuple(row for row in self.rows if row.row.scored)

    @property
    def check(self) -> tuple[ScoredRow, ...]:
        """Measurements that no figure was read off."""
        return tuple(row for row in self.measured if row.row.split == "check")

    @property
    def floors(self) -> tuple[ScoredRow, ...]:
        return tuple(row for row in self.rows if row.row.kind == "floor")

    @property
    def violated_floors(self) -> tuple[ScoredRow, ...]:
        return tuple(row for row in self.floors if row.error is not None)

    @property
    def set_aside(self) -> tuple[MicroRow, ...]:
        return tuple(row for file in self.files for row in file.rows if row.set_aside)

    @property
    def worst(self) -> tuple[ScoredRow, ...]:
        """The check rows that miss by most."""
        rows = sorted(self.check, key=lambda row: -abs(row.error or 0.0))
        return tuple(rows[:WORST_ROWS])

    @property
    def summary(self) -> dict[str, Any]:
        """Mean absolute log errors by kernel and by kernel and machine, of check and of fit rows; counts."""
        fit = [row for row in self.measured if row.row.split == "fit"]
        return {
            "check": _by(self.check, lambda row: row.kernel),
            "check_by_machine": {
                kernel: _by(rows, lambda row: row.machine) for kernel, rows in by_kernel(self.check).items()
            },
            "left_one_out": _by(self.left_out, lambda row: row.kernel),
            "left_one_out_by_machine": {
                kernel: _by(rows, lambda row: row.machine)
                for kernel, rows in by_kernel(self.left_out).items()
            },
            "fit": _by(fit, lambda row: row.kernel),
            "floors": len(self.floors),
            "floors_violated": len(self.violated_floors),
            "rows": sum(len(file.rows) for file in self.files),
            "set_aside": len(self.set_aside),
            "not_predicted": sum(1 for row in self.rows if row.failure),
        }

    def to_dict(self) -> dict[str, Any]:
        """``{"rows": [...], "left_out": [...], "set_aside": [...], "summary": {...}}``: JSON types only."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "left_out": [row.to_dict() for row in self.left_out],
            "set_aside": [
                {"location": row.location, "source": row.source.title, "reason": row.set_aside}
                for row in self.set_aside
            ],
            "worst": [row.to_dict() for row in self.worst],
            "violated_floors": [row.to_dict() for row in self.violated_floors],
            "summary": self.summary,
        }


def score(rows: Iterable[MicroRow], machines: Machines) -> tuple[ScoredRow, ...]:
    """Every row that is not set aside beside its prediction."""
    return tuple(_score(row, machines) for row in rows if row.subject is not None)


def validate_micro(directory: str | Path | None = None) -> MicroReport:
    """Scores the published micro-benchmarks, or those in ``directory``.

    Raises ``LedgerError`` (located messages) for files with errors and ``FileNotFoundError`` for a missing
    folder. A row that no model answers for is no error: it comes back without a prediction and says why.
    """
    from sim.data_paths import micro_dir
    from sim.ledger.micro_left_out import leave_one_out

    files = load_micro(micro_dir() if directory is None else Path(directory))
    rows = [row for file in files for row in file.rows]
    return MicroReport(files, score(rows, Machines()), leave_one_out(rows))


def by_kernel(rows: Iterable[ScoredRow]) -> dict[str, list[ScoredRow]]:
    groups: dict[str, list[ScoredRow]] = {}
    for row in rows:
        groups.setdefault(row.kernel, []).append(row)
    return dict(sorted(groups.items()))


def _score(row: MicroRow, machines: Machines) -> ScoredRow:
    try:
        return ScoredRow(row, predict(row, machines))
    except ValueError as error:
        return ScoredRow(row, None, " ".join(str(error).split()))


def _by(rows: Sequence[ScoredRow], key: Callable[[ScoredRow], str]) -> dict[str, Any]:
    groups: dict[str, list[ScoredRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    statistics = {name: MicroStatistic.of(groups[name]) for name in sorted(groups)}
    return {name: statistic.to_dict() for name, statistic in statistics.items() if statistic is not None}
