"""The scored ledger: what ``validate`` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sim.ledger.coverage import Judge, coverage
from sim.ledger.loader import load_directory
from sim.ledger.run import LedgerFile
from sim.ledger.score import Predictor, ScoredRun
from sim.ledger.summary import Configuration, configurations, summary
from sim.range import shipped_evidence


@dataclass(frozen=True)
class LedgerReport:
    """Every run of some ledger files beside its prediction."""

    files: tuple[LedgerFile, ...]
    runs: tuple[ScoredRun, ...]

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """Runs with times measured and predicted, those of one configuration together."""
        return configurations(self.runs)

    @property
    def summary(self) -> dict[str, Any]:
        return summary(self.runs) | {"range_90": self.coverage}

    @cached_property
    def coverage(self) -> dict[str, Any]:
        """The share of check configurations inside their 90 % range, in all, tuned, and by kind of case."""
        return coverage(self.configurations, self._judge)

    def to_dict(self) -> dict[str, Any]:
        """``{"runs": [...], "summary": {...}}`` as ``sim validate --json`` prints it: JSON types only."""
        return {"runs": [self._entry(run) for run in self.runs], "summary": self.summary}

    @cached_property
    def _judge(self) -> Judge:
        return Judge(shipped_evidence())

    def _entry(self, run: ScoredRun) -> dict[str, Any]:
        found = self._judge.range_90(run)
        if found is None:
            return run.to_dict() | {"range_90": None, "inside_range": None}
        low, high = found
        return run.to_dict() | {
            "range_90": [low, high],
            "inside_range": low <= run.run.measured.value <= high,
        }


def score_files(files: Sequence[LedgerFile]) -> LedgerReport:
    """Predicts every run of ``files``; each distinct scenario is simulated once."""
    predictor = Predictor()
    scored = tuple(predictor.score(run) for file in files for run in file.runs)
    return LedgerReport(tuple(files), scored)


def validate(directory: str | Path | None = None) -> LedgerReport:
    """Scores the published measured runs, or those in ``directory``.

    Raises ``LedgerError`` (located messages) for files with errors and ``FileNotFoundError`` for a missing folder.
    A run whose scenario this version refuses is no error: it comes back without a prediction and says why.
    """
    from sim.data_paths import measured_dir

    return score_files(load_directory(measured_dir() if directory is None else Path(directory)))
