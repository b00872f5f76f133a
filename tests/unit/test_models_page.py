"""``docs/models.md`` names the fitted figures that the catalog has, and the runs that they were fitted on."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hwmodels import catalog
from hwmodels.units import UnitError, parse
from sim.data_paths import measured_dir
from sim.ledger import load_directory
from sim.ledger.fitted import MODELS_PAGE, fitted_table, with_fitted
from sim.ledger.report import LedgerReport, score_files

PAGE = (Path(__file__).resolve().parents[2] / MODELS_PAGE).read_text("utf-8")


@cache
def fit_report() -> LedgerReport:
    """The ledger without its check runs, which fit nothing."""
    files = load_directory(measured_dir())
    kept = [replace(file, runs=tuple(run for run in file.runs if run.split == "fit")) for file in files]
    return score_files([file for file in kept if file.runs])


def test_the_table_of_fitted_figures_is_that_of_catalog_and_ledger() -> None:
    assert with_fitted(PAGE, fitted_table(fit_report())) == PAGE, "run: python -m sim.ledger.markdown"


def test_every_fit_configuration_stands_beside_a_figure() -> None:
    table = fitted_table(fit_report())
    for configuration in fit_report().configurations:
        assert f"`{configuration.first.run.id}`" in table


def test_figures_stand_with_the_profile_that_states_them() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in fitted_table(fit_report()).splitlines()
    ]
    values = {(row[0].strip(), row[1].strip("`")): row[2] for row in rows[2:]}
    assert ("primus-2026-mi300x", "gemm_efficiency.bf16") in values
    assert not any(stack == "primus-2026-mi325x" for stack, _ in values)  # it inherits them
    for (stack, path), value in values.items():
        entry = catalog.stack(stack)
        name, _, key = path.partition(".")
        found = getattr(entry, name) if hasattr(entry, name) else getattr(entry, f"{name}_s")
        assert (found[key] if key else found) == _quantity(value)


def _quantity(text: str) -> float:
    """A figure as a profile writes it: a number, bytes or a time."""
    for dimension in ("number", "bytes", "time"):
        with contextlib.suppress(UnitError):
            return parse(text, dimension)
    raise AssertionError(text)


def test_runs_that_a_note_names_are_the_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure of all 16-bit formats rests on one run, whatever else takes it; a run that does not is an error."""
    row = next(
        line for line in fitted_table(fit_report()).splitlines() if "`gemm_efficiency.bf16` | 0.865" in line
    )
    assert row.endswith("| `primus-8b-8xmi325x-bf16` |")
    figure = {"value": "1", "source": "ledger", "note": "fitted on `lumi-175b-128gcd`"}
    monkeypatch.setattr("sim.ledger.fitted.raw", lambda kind, stack: {"p2p_efficiency": figure})
    with pytest.raises(ValueError, match="no fit run takes it: lumi-175b-128gcd"):
        fitted_table(replace(fit_report(), runs=()))


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="fitted:begin"):
        with_fitted("# The models\n", "table")
