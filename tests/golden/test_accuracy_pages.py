"""The pages that quote the ledger say what the ledger says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sim.ledger import LedgerReport, validate
from sim.ledger.markdown import ACCURACY_PAGE, accuracy_page, readme_block, with_table

ROOT = Path(__file__).resolve().parents[2]
REMEDY = "run: python -m sim.ledger.markdown"


@cache
def report() -> LedgerReport:
    return validate()


def test_readme_table_is_that_of_the_ledger() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == with_table(readme, readme_block(report())), REMEDY


def test_accuracy_page_is_that_of_the_ledger() -> None:
    assert (ROOT / ACCURACY_PAGE).read_text(encoding="utf-8") == accuracy_page(report()), REMEDY


def test_every_published_run_is_predicted() -> None:
    assert {run.run.id: run.failure for run in report().runs if run.failure} == {}


def test_two_validations_give_the_same_bytes() -> None:
    assert accuracy_page(validate()) == accuracy_page(report())
