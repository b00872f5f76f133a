"""The ledger: predictions against published measured runs."""

from __future__ import annotations

from sim.ledger.from_log import measured_run
from sim.ledger.loader import LedgerError, load_directory, load_file
from sim.ledger.micro import MicroReport, validate_micro
from sim.ledger.report import LedgerReport, score_files, validate

__all__ = [
    "LedgerError",
    "LedgerReport",
    "MicroReport",
    "load_directory",
    "load_file",
    "measured_run",
    "score_files",
    "validate",
    "validate_micro",
]
