"""A dated stack profile fitted on a user's own logs."""

from __future__ import annotations

from sim.calibrate.calibration import Calibration, calibrate_stack
from sim.calibrate.errors import CalibrationError

__all__ = ["Calibration", "CalibrationError", "calibrate_stack"]
