"""The whole ledger costs most of a minute to predict: one worker does it once for all who ask."""

from __future__ import annotations

import pytest

from sim.ledger import LedgerReport, validate


@pytest.fixture(scope="session")
def ledger() -> LedgerReport:
    """Every published run beside its prediction. Modules that use it belong to the xdist group ``ledger``."""
    return validate()
