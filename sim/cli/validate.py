"""``sim validate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sim
from sim.cli.output import JsonFlag, print_json, print_page, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping


def validate(
    runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of measured runs; default: the published ones.")
    ] = None,
    micro: Annotated[
        bool, typer.Option("--micro", help="Score the hardware models against micro-benchmarks instead.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare predictions with published measured runs: the ledger."""
    if runs is not None and not runs.is_dir():
        refuse(f"--runs {runs}: no such folder")
    if micro:
        _validate_micro(runs, as_json)
        return
    ledger: Mapping[str, Any] = sim.validate(runs).to_dict()
    if as_json:
        print_json(ledger)
    else:
        from sim.report.terminal.validation_page import validation_page

        print_page(validation_page(ledger))


def _validate_micro(rows: Path | None, as_json: bool) -> None:
    report: Mapping[str, Any] = sim.validate_micro(rows).to_dict()
    if as_json:
        print_json(report)
    else:
        from sim.report.terminal.micro_page import micro_page

        print_page(micro_page(report))
