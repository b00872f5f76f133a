"""The accuracy table and page, on made-up scores."""

from __future__ import annotations

import pytest
from fakes.ledger import scored_run

from sim.ledger.markdown import BEGIN, END, accuracy_page, accuracy_table, with_table
from sim.ledger.report import LedgerReport
from sim.ledger.run import LedgerFile, SetAside, Source


def report() -> LedgerReport:
    runs = (
        scored_run("a", predicted=2.1),
        scored_run("b", predicted=1.8, gpu="h100-sxm", assumed=("recompute is none",)),
        scored_run("c", predicted=1.0, tuned=False, untuned_evidence="compile | off"),
        scored_run("d", split="fit"),
        scored_run("e", predicted=None, failure="cp is not modelled yet"),
    )
    file = LedgerFile(
        path="measured/example.yaml",
        source=Source(title="A table", url="https://example.org", where="page 3"),
        runs=tuple(run.run for run in runs),
        set_aside=(SetAside("f", "printed twice"),),
        out_of_scope="3 rows with experts",
    )
    return LedgerReport((file,), runs)


def test_the_table_lists_amd_first_and_keeps_untuned_and_fit_apart() -> None:
    lines = accuracy_table(report()).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:7]] == [
        "**MI325X**",
        "**H100-SXM**",
        "all, tuned stacks",
        "all, tuned stacks, without LoRA",
        "untuned runs",
    ]
    assert lines[2] == "| **MI325X** | 1 | 1 | 5.0% | +5.0% (`a`) |"
    assert "| 2 | 2 | 7.5% | -10.0% (`b`) |" in lines[4]
    assert "- 1 configurations were used for fitting" in lines[-2]
    assert lines[-1] == "- Without a prediction: 1 runs."


def test_the_page_shows_every_run_what_was_assumed_and_what_was_set_aside() -> None:
    page = accuracy_page(report())
    assert "## example" in page
    assert "| `a` | check | 8 MI325X | example-stack | 2 | 2.1 | +5.0% |" in page
    assert "- assumed recompute is none (`b`)" in page
    assert "- untuned: compile \\| off. (`c`)" in page
    assert "- not predicted: `e`: cp is not modelled yet" in page
    assert "- set aside: f: printed twice" in page
    assert "- out of scope: 3 rows with experts" in page


def test_only_what_stands_between_the_markers_changes() -> None:
    readme = f"# Title\n\n{BEGIN}\nold\n{END}\n\nafter\n"
    assert with_table(readme, "new") == f"# Title\n\n{BEGIN}\nnew\n{END}\n\nafter\n"
    assert with_table(with_table(readme, "x"), "new") == with_table(readme, "new")


@pytest.mark.parametrize("readme", ["no markers", BEGIN, f"{END} {BEGIN}"])
def test_missing_markers_are_an_error(readme: str) -> None:
    with pytest.raises(ValueError, match="accuracy:begin"):
        with_table(readme, "new")
