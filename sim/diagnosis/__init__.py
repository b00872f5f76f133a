"""Where a measurement loses against the prediction, and the likely cause."""

from __future__ import annotations

from sim.diagnosis.cause import Cause
from sim.diagnosis.comparison import ComparedRow, Comparison, compare_collective
from sim.diagnosis.errors import ExplainError
from sim.diagnosis.explanation import Candidate, Explanation, explain

__all__ = [
    "Candidate",
    "Cause",
    "ComparedRow",
    "Comparison",
    "ExplainError",
    "Explanation",
    "compare_collective",
    "explain",
]
