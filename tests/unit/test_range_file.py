"""The table of residuals, and the case that a scenario is."""

from __future__ import annotations

import pytest
from fakes.residuals import residual
from fakes.scenarios import changes, small

from sim.range.residual import COLUMNS, read_residuals, write_residuals
from sim.step import Step


def test_what_is_written_is_read_back() -> None:
    rows = (residual(-0.12345, "a"), residual(0.5, "b", tuned=False, split="fit", gpus=16384, experts=True))
    assert read_residuals(write_residuals(rows)) == rows
    assert read_residuals(write_residuals(())) == ()


def test_values_keep_five_decimals() -> None:
    (row,) = read_residuals(write_residuals([residual(0.123456789)]))
    assert row.value == 0.12346


def test_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"columns are .* should be"):
        read_residuals("id,value\na,1\n")


@pytest.mark.parametrize(("column", "wrong"), [("gpus", "many"), ("tuned", "maybe"), ("tp", "")])
def test_a_wrong_row_is_named_by_its_line(column: str, wrong: str) -> None:
    head, row = write_residuals([residual(0.1)]).splitlines()
    cells = row.split(",")
    cells[COLUMNS.index(column)] = wrong
    with pytest.raises(ValueError, match="residuals, line 3"):
        read_residuals("\n".join([head, row, ",".join(cells)]))


def test_a_case_names_machine_software_model_size_and_plan() -> None:
    found = Step(small(*changes("tp=4"))).case
    assert (found.gpu, found.stack, found.tuned) == ("mi300x", "primus-2026-mi300x", True)
    assert (found.model, found.experts, found.precision) == ("small", False, "bf16")
    assert (found.gpus, found.tp, found.pp, found.schedule) == (8, 4, 1, "none")
    assert Step(small(*changes("pp=2"))).case.schedule == "1f1b"
    assert Step(small(*changes("training.lora={rank:16}"))).case.model == "small+lora"
    assert Step(small("cluster.stack=tprimat-2025-mi300x")).case.tuned is False


@pytest.mark.parametrize(
    ("change", "gpu"),
    [
        ("{compute_units: 320}", "mi300x, changed"),
        ("{hbm_bandwidth: 8 TB/s}", "mi300x, changed"),
        ("{hbm: 256 GB}", "mi300x"),
    ],
)
def test_a_gpu_that_nobody_built_is_no_measured_one(change: str, gpu: str) -> None:
    assert Step(small(f"cluster.gpu={change}")).case.gpu == gpu


def test_a_result_lies_in_its_range_and_says_when_nobody_measured_such_a_case() -> None:
    near = Step(small()).result
    assert near.range_90 is not None
    assert near.range_90.kind == "new precision"  # that profile's published runs are in fp8
    assert near.range_90.outside == ()
    low, high = near.step_time_range_s or (0.0, 0.0)
    assert low < near.step_time_s < high
    far = Step(small("cluster.nodes=16384", "training.global_batch=131072")).result
    assert far.range_90 is not None
    assert far.range_90.outside[0].startswith("131,072 GPUs, measured up to ")
    assert any(note.startswith("outside the validated range") for note in far.warnings)
    assert far.range_90.high_s / far.range_90.low_s > high / low
