"""Pages read well at 100 columns, say every figure, and need no colour."""

from __future__ import annotations

import io
from typing import Any

import pytest
from fakes.results import GIB, stage_memory, step_result
from rich.console import RenderableType

from sim.causes import CAUSES
from sim.report.terminal.bars import bar, memory_bar
from sim.report.terminal.catalog_page import catalog_page, entry_page
from sim.report.terminal.console import console
from sim.report.terminal.memory_page import memory_page
from sim.report.terminal.step_page import plan_words, step_page
from sim.report.terminal.validation_page import validation_page
from sim.results import PredictionRange, StepResult

LEDGER = {
    "runs": [
        {
            "id": "example-8x-mi355x-8b", "split": "check", "gpu": "mi355x", "stack": "example-stack", "model": "8B",
            "n_gpus": 1024, "metric": "step_time_s", "measured": 1.234, "predicted": 1.198, "error": -0.0292,
            "range_90": None, "inside_range": None, "note": "",
        },
        {
            "id": "example-memory", "split": "fit", "gpu": "b200", "stack": "example-stack", "model": "70B",
            "n_gpus": 8, "metric": "peak_memory_bytes", "measured": 7e10, "predicted": None, "error": None,
            "range_90": None, "inside_range": None, "note": "not predicted: an example of a failure",
        },
    ],
    "summary": {
        "check": {"tuned": {
            "mape": 0.0292, "bias": -0.0292, "worst": -0.0292, "worst_id": "example-8x-mi355x-8b",
            "configurations": 1, "runs": 1,
        }},
        "check_by_gpu": {"mi355x": {"mape": 0.0292, "configurations": 1}},
        "memory": {}, "runs": 2, "not_predicted": 1,
        "range_90": {
            "configurations": 20, "inside": 18, "share": 0.9,
            "tuned": {"configurations": 0, "inside": 0, "share": None},
            "kinds": {"new model": {"configurations": 12, "inside": 11, "share": 11 / 12, "half_width": 0.08}},
        },
    },
}  # fmt: skip
ENTRIES = [
    {"kind": "gpu", "name": "mi325x", "title": "AMD Instinct MI325X", "remark": "", "figures": []},
    {"kind": "switch", "name": "example", "title": "A switch", "remark": "announced", "figures": []},
]
ENTRY = {
    "kind": "gpu", "name": "mi325x", "title": "AMD Instinct MI325X",
    "figures": [
        {"figure": "hbm", "value": "256 GB", "confidence": "high", "source": "https://example.org/ds", "note": "8 stacks"}
    ],
}  # fmt: skip


def shown(page: RenderableType, columns: int = 100) -> str:
    stream = io.StringIO()
    console(stream, columns).print(page)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [80, 100, 160])
@pytest.mark.parametrize(
    "page",
    [
        step_page(step_result()),
        memory_page(step_result()),
        validation_page(LEDGER),
        catalog_page(ENTRIES),
        entry_page(ENTRY),
    ],
    ids=["step", "memory", "validation", "catalog", "entry"],
)
def test_no_line_is_wider_than_the_terminal_or_cut_short(page: RenderableType, columns: int) -> None:
    text = shown(page, columns)
    assert max(len(line) for line in text.splitlines()) <= columns
    assert "\x1b" not in text  # a stream that is no terminal gets no escapes
    if columns >= 100:
        assert "…" not in text


def test_a_pipe_is_as_wide_as_the_pages_are_made_for() -> None:
    assert console(io.StringIO()).width == 100


def test_the_step_page_says_every_figure_with_its_unit() -> None:
    text = shown(step_page(step_result()))
    for words in (
        "Llama 3.1 8B · 1,048,576 tokens per step · 16 × MI325X · pp2 dp8 zero-1",
        "6.750 s", "9,709", "500.4", "38.3 %  of 1,307 TFLOP/s, the dense bf16 peak", "megatron convention",
        "2025-10-01", "120.0 GiB", "123.6–130.8 GiB", "125.2–133.4 GiB", "256.0 GiB", "rank 0, stage 0", "fits",
        "output-layer backward of micro-batch 0", "the pipeline bubble another 41 %", "0123456789ab",
        "Sources (3 figures", "gpu mi325x: Example data sheet (high)", "https://example.org/ds", "kernel_gap 4 µs", "has no effect",
    ):  # fmt: skip
        assert words in text, words


def test_the_breakdown_adds_up_as_printed() -> None:
    lines = shown(step_page(step_result())).splitlines()
    start, end = (
        next(i for i, line in enumerate(lines) if s in line) for s in ("Where the step", "  step  ")
    )
    end = next(i for i, line in enumerate(lines) if i > start and line.startswith("  step "))
    seconds = [float(line.split(" s ")[0].split()[-1]) for line in lines[start + 1 : end]]
    assert len(seconds) == 5
    assert sum(seconds) == pytest.approx(float(lines[end].split(" s ")[0].split()[-1]), abs=1e-9)


def test_causes_come_in_their_fixed_order_whatever_the_order_of_the_result() -> None:
    result = step_result(breakdown_s=dict(sorted(step_result().breakdown_s.items(), reverse=True)))
    text = shown(step_page(result))
    labels = [cause.label for cause in CAUSES if result.breakdown_s.get(cause.key)]
    places = [text.index(f"\n  {label}") for label in labels]
    assert places == sorted(places)


def test_a_result_without_notes_has_no_empty_sections() -> None:
    text = shown(step_page(step_result(warnings=(), assumed=(), sources=(), hidden_s={})))
    for heading in ("Warnings", "Assumed", "Sources", "hidden under"):
        assert heading not in text


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"tp": 8, "pp": 16, "dp": 128, "data_sharding": "zero-1"}, "tp8 pp16 dp128 zero-1"),
        ({"tp": 1, "pp": 1, "dp": 1}, "one GPU"),
    ],
)
def test_plan_in_words(layout: dict[str, Any], words: str) -> None:
    assert plan_words(step_result(layout=layout)) == words


def test_bars_are_proportional_and_never_hide_a_small_share() -> None:
    assert bar(0.5, 40, "red").plain == "█" * 20 + " " * 20
    assert bar(1.0, 8, "red").plain == "█" * 8
    assert bar(1e-6, 8, "red").plain.strip() == "▏"
    assert bar(0.0, 8, "red").plain == " " * 8


def test_the_capacity_line_stands_where_memory_ends() -> None:
    assert memory_bar(25, 50, 75, 100, cells=40).plain == "█" * 10 + "▓" * 10 + "░" * 10 + "·" * 9 + "┃"
    over = memory_bar(150, 180, 200, 100, cells=40).plain
    assert over.index("┃") == 19
    assert over[20:30] == "█" * 10


def does_not_fit() -> StepResult:
    memory = stage_memory(
        verdict="does not fit",
        allocated_bytes=300 * GIB,
        parts_bytes={"activations": 300 * GIB},
        reserved_bytes=(310 * GIB, 320 * GIB),
        device_bytes=(312 * GIB, 325 * GIB),
    )
    return step_result(memory=(memory,))


def test_what_does_not_fit_is_said() -> None:
    for page in (step_page, memory_page):
        assert "Memory of the worst rank (rank 0): does not fit" in shown(page(does_not_fit()))


def test_equal_neighbours_share_a_row_of_the_memory_table() -> None:
    stages = (
        stage_memory(0, allocated_bytes=130 * GIB, parts_bytes={"a": 130 * GIB}),
        *map(stage_memory, range(1, 15)),
    )
    text = shown(memory_page(step_result(memory=(*stages, stage_memory(15, peak_name="optimizer step")))))
    rows = [line.split()[0] for line in text.splitlines() if line[:1].isdigit()]
    assert rows == ["0", "1–14", "15"] * 2
    assert "[2] peak at optimizer step" in text


def test_many_parts_of_memory_are_split_over_tables_and_empty_ones_left_out() -> None:
    parts = {f"part_{letter}": GIB * (letter != "c") for letter in "abcdefghijkl"}
    text = shown(
        memory_page(step_result(memory=(stage_memory(allocated_bytes=11 * GIB, parts_bytes=parts),)))
    )
    assert "…" not in text
    assert all(f"part {letter}" in text for letter in "abdefghijkl")
    assert "part c" not in text


def test_the_ledger_page_shows_errors_means_and_notes() -> None:
    text = shown(validation_page(LEDGER))
    for words in (
        "-2.9 %",
        "1,024",
        "example-stack on mi355x",
        "check\n  tuned ",
        "check by gpu\n  mi355x",
        "2.9 %",
        "not predicted: an example of a failure",
        "65.19 GiB",
    ):
        assert words in text, words


def test_the_ledger_page_shows_what_the_ranges_hold() -> None:
    lines = [line.split() for line in shown(validation_page(LEDGER)).splitlines()]
    assert ["all", "18/20", "90.0", "%"] in lines
    assert ["tuned", "0/0"] in lines
    assert ["as", "new", "model", "11/12", "×", "or", "÷", "1.08", "91.7", "%"] in lines
    without = shown(validation_page({"runs": [], "summary": {"range_90": {}}}))
    assert "90 %" not in without


def test_the_step_page_shows_the_range_in_the_unit_of_the_step_time() -> None:
    ranged = step_result(range_90=PredictionRange(6.25, 7.5, "new model", "nine of ten lie inside"))
    text = shown(step_page(ranged))
    assert "90 %: 6.250–7.500 s (new model)" in text
    assert "range: nine of ten lie inside" in text
    assert "no range: no published run says" in shown(step_page(step_result()))


def test_the_entry_page_shows_value_confidence_and_source() -> None:
    text = shown(entry_page(ENTRY))
    for words in ("256 GB", "high", "[1]", "8 stacks", "[1] https://example.org/ds"):
        assert words in text, words


def test_kinds_are_named_in_the_plural() -> None:
    lines = shown(catalog_page(ENTRIES)).splitlines()
    assert any(line.split() == ["example", "A", "switch", "announced"] for line in lines)
    assert "gpus" in [line.strip() for line in lines]
    assert "switches" in [line.strip() for line in lines]
