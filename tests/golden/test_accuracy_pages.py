"""The pages that quote the ledger say what the ledger says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.ledger import LedgerReport, validate
from sim.ledger.markdown import ACCURACY_PAGE, accuracy_page, readme_block, with_table

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("ledger")

REMEDY = "run: python -m sim.ledger.markdown"


def test_readme_table_is_that_of_the_ledger(ledger: LedgerReport) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == with_table(readme, readme_block(ledger)), REMEDY


def test_accuracy_page_is_that_of_the_ledger(ledger: LedgerReport) -> None:
    assert (ROOT / ACCURACY_PAGE).read_text(encoding="utf-8") == accuracy_page(ledger), REMEDY


def test_every_published_run_is_predicted(ledger: LedgerReport) -> None:
    assert {run.run.id: run.failure for run in ledger.runs if run.failure} == {}


@pytest.mark.slow
def test_two_validations_give_the_same_bytes(ledger: LedgerReport) -> None:
    assert accuracy_page(validate()) == accuracy_page(ledger)
