"""Where a measurement loses against the prediction, and the likely cause."""

from __future__ import annotations

from sim.diagnosis.cause import Cause
from sim.diagnosis.comparison import ComparedRow, Comparison, compare_collective

__all__ = ["Cause", "ComparedRow", "Comparison", "compare_collective"]
