"""What stops a calibration."""

from __future__ import annotations

from collections.abc import Sequence


class CalibrationError(ValueError):
    """Logs from which no profile follows. ``errors`` are the messages, located where a log is at fault."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))
