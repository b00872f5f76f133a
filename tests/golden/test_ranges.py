"""The ranges that results carry, held to the published runs; and their table, held to the ledger."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sim.data_paths import residuals_file
from sim.ledger import LedgerReport
from sim.ledger.residuals import residuals
from sim.range import read_residuals

pytestmark = pytest.mark.xdist_group("ledger")

REMEDY = "run: python -m sim.ledger.residuals"
MANY = 20  # configurations from which a share means something


@pytest.fixture(scope="module")
def coverage(ledger: LedgerReport) -> dict[str, Any]:
    return ledger.coverage


def test_the_shipped_table_is_that_of_the_ledger(ledger: LedgerReport) -> None:
    shipped = read_residuals(residuals_file().read_text(encoding="utf-8"))
    fresh = residuals(ledger)
    assert [(row.runs, row.split, row.case) for row in shipped] == [
        (row.runs, row.split, row.case) for row in fresh
    ], REMEDY
    # two units of the last decimal: libraries may round the last bits of a sum another way
    assert [row.value for row in shipped] == pytest.approx([row.value for row in fresh], abs=2e-5), REMEDY


def test_ranges_hold_85_to_95_percent_of_the_check_configurations(coverage: dict[str, Any]) -> None:
    """Each judged by the others: neither its own residual nor those of its group are known to its range."""
    for what in (coverage, coverage["tuned"]):
        assert what["configurations"] >= 100
        assert 0.85 <= what["share"] <= 0.95


def test_every_kind_of_case_holds_about_nine_of_ten(coverage: dict[str, Any]) -> None:
    """Within three standard errors of a share of nine in ten."""
    many = {k: v for k, v in coverage["kinds"].items() if v["configurations"] >= MANY}
    assert len(many) >= 4
    off = {
        kind: entry["share"]
        for kind, entry in many.items()
        if abs(entry["share"] - 0.9) > 3 * math.sqrt(0.9 * 0.1 / entry["configurations"])
    }
    assert off == {}


def test_amd_runs_are_covered_too(ledger: LedgerReport) -> None:
    """Nine of ten overall must not come from one large source: AMD's check runs by themselves."""
    amd = [
        entry["inside_range"]
        for entry in ledger.to_dict()["runs"]
        if entry["gpu"].startswith("mi") and entry["split"] == "check" and entry["inside_range"] is not None
    ]
    assert len(amd) >= 15
    assert sum(amd) / len(amd) >= 0.85


def test_known_cases_have_ranges_that_are_worth_something(coverage: dict[str, Any]) -> None:
    """A range that holds everything is easy: where the stack is known, it stays within 12 percent each way."""
    assert coverage["kinds"]["same stack"]["half_width"] <= 0.12


def test_the_range_of_a_run_is_given_in_its_own_metric(ledger: LedgerReport) -> None:
    entries = [e for e in ledger.to_dict()["runs"] if e["range_90"] is not None]
    assert {e["metric"] for e in entries} >= {"step_time_s", "tokens_per_s_per_gpu", "samples_per_s"}
    for entry in entries:
        low, high = entry["range_90"]
        assert low <= entry["predicted"] * (1 + 1e-12)
        assert entry["predicted"] <= high * (1 + 1e-12)
        assert entry["inside_range"] == (low <= entry["measured"] <= high)
