"""How far a prediction may be off, judged by how far predictions of published runs were off.

The evidence is ``validation/residuals.csv``: one row per measured configuration, written by
``python -m sim.ledger.residuals``. Nothing here simulates.
"""

from __future__ import annotations

from functools import cache

from sim.data_paths import residuals_file
from sim.range.case import Case
from sim.range.evidence import KINDS, Evidence, LogRange
from sim.range.residual import Residual, read_residuals
from sim.results import PredictionRange

__all__ = ["KINDS", "Case", "Evidence", "LogRange", "Residual", "prediction_range", "shipped_evidence"]


@cache
def shipped_evidence() -> Evidence:
    """The residuals of the published runs. Raises ``FileNotFoundError`` when the installation lacks them."""
    return Evidence(read_residuals(residuals_file().read_text(encoding="utf-8")))


def prediction_range(case: Case, step_time_s: float) -> PredictionRange | None:
    """Where nine of ten measurements of ``case`` should lie; None where no published run says anything."""
    evidence = shipped_evidence().of_family(case)
    found = evidence.judge(case)
    if found is None:
        return None
    low_s, high_s = found.around(step_time_s)
    return PredictionRange(low_s, high_s, found.kind, found.words, evidence.beyond(case))
