"""The table of residuals that every prediction's range rests on: ``validation/residuals.csv``.

``python -m sim.ledger.residuals`` scores the ledger and rewrites it. A test holds the file to the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from sim.data_paths import residuals_file
from sim.ledger.report import LedgerReport, validate
from sim.ledger.summary import Configuration
from sim.range import Residual
from sim.range.residual import DECIMALS, write_residuals


def residuals(report: LedgerReport) -> tuple[Residual, ...]:
    """One row per configuration with a predicted and a measured step time, in the order of the ledger."""
    return tuple(_rows(report.configurations))


def _rows(configurations: Iterable[Configuration]) -> Iterable[Residual]:
    for configuration in configurations:
        first = configuration.first
        if first.case is not None:
            value = math.log(configuration.predicted_step_s / configuration.measured_step_s)
            yield Residual(
                runs=tuple(run.run.id for run in configuration.runs),
                split=first.run.split,
                case=first.case,
                value=round(value, DECIMALS),
            )


def main() -> None:
    """Rewrites the table of the checkout that this module lies in."""
    path = residuals_file()
    if not path.exists():  # predictions read the table, so there must be one, if an empty one
        path.write_text(write_residuals(()), encoding="utf-8")
    path.write_text(write_residuals(residuals(validate())), encoding="utf-8")


if __name__ == "__main__":
    main()
