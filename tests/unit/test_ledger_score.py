"""One run beside its prediction: units, memory, refusals, the documented JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.ledger import measured_run, scored_run
from fakes.results import stage_memory, step_result

from sim.ledger.loader import load_file
from sim.ledger.report import LedgerReport, score_files
from sim.ledger.run import Measured
from sim.ledger.score import Predictor, configuration, read_scenario

KEYS = (
    "id", "split", "gpu", "stack", "model", "n_gpus", "metric", "measured", "predicted", "error", "range_90",
    "inside_range", "note",
)  # fmt: skip

FILE = """\
source: {title: A table}
scenario:
  model: llama-3.1-8b
  cluster: {node: mi325x-8x400g, nodes: 1, stack: primus-2026-mi325x}
  training: {sequence_length: 4096, global_batch: 16, precision: bf16}
runs:
  - {id: seconds, split: check, measured: {step_time_s: 2.0}}
  - {id: tokens, split: check, measured: {tokens_per_s_per_gpu: 4096}}
  - {id: samples, split: check, measured: {samples_per_s: 8.0}}
  - {id: later, split: check, scenario: {parallelism: {cp: 3}}, measured: {step_time_s: 1.0}}
"""


@pytest.mark.parametrize(
    ("measured", "step_time_s"),
    [
        (Measured(step_time_s=1.5), 1.5),
        (Measured(tokens_per_s_per_gpu=1000.0), 8.0),  # 64,000 tokens / (1,000 x 8 GPUs)
        (Measured(samples_per_s=4.0), 16.0),  # 64 sequences / 4 a second
        (Measured(peak_memory_bytes=1e9), None),
        (Measured(goodput=0.9), None),
    ],
)
def test_every_time_metric_becomes_seconds_per_step(measured: Measured, step_time_s: float | None) -> None:
    assert measured.step_time(global_batch=64, tokens_per_step=64_000.0, gpus=8) == step_time_s


def test_the_prediction_is_given_in_the_unit_of_the_metric_and_the_error_in_step_time() -> None:
    run = scored_run(predicted=1.0, measured=2.0)
    run = replace(run, run=replace(run.run, measured=Measured(samples_per_s=8.0)))
    assert (run.predicted, run.error) == (16.0, -0.5)  # twice the samples per second, half the step time
    run = replace(run, run=replace(run.run, measured=Measured(tokens_per_s_per_gpu=8192.0)))
    assert (run.predicted, run.error) == (16384.0, -0.5)


def test_memory_is_compared_stage_by_stage() -> None:
    run = scored_run(predicted_allocated_bytes=(99.0, 202.0))
    by_stage = Measured(step_time_s=2.0, allocated_bytes_by_stage=(100.0, 200.0))
    assert replace(run, run=replace(run.run, measured=by_stage)).memory_errors == pytest.approx((-0.01, 0.01))
    peak = Measured(step_time_s=2.0, peak_memory_bytes=200.0, memory_kind="allocated")
    assert replace(run, run=replace(run.run, measured=peak)).memory_errors == pytest.approx((0.01,))
    reserved = Measured(step_time_s=2.0, peak_memory_bytes=200.0, memory_kind="reserved")
    assert replace(run, run=replace(run.run, measured=reserved)).memory_errors == ()


def test_a_run_that_measured_only_memory_is_judged_on_memory() -> None:
    run = scored_run(predicted_allocated_bytes=(110.0,), measured_step_s=None)
    run = replace(run, run=measured_run(measured=Measured(peak_memory_bytes=100.0)))
    assert run.error == pytest.approx(0.1)


def test_json_has_the_documented_keys_and_only_json_types() -> None:
    report = LedgerReport(
        (), (scored_run("a"), scored_run("b", predicted=None, failure="cp is not modelled yet"))
    )
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert set(document) == {"runs", "summary"}
    for run in document["runs"]:
        assert tuple(run)[: len(KEYS)] == KEYS
    assert document["runs"][0]["error"] == 0.0
    assert document["runs"][1]["predicted"] is None
    assert document["runs"][1]["note"] == "not predicted: cp is not modelled yet"


def test_untuned_runs_carry_their_evidence_in_the_note() -> None:
    run = scored_run(tuned=False, untuned_evidence="compile is off", known_reason="eager", note="±5 %")
    assert run.note == "untuned: compile is off. eager. ±5 %."


def file_of(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_the_same_scenario_is_simulated_once_whatever_its_run_is_called(tmp_path: Path) -> None:
    runs = load_file(file_of(tmp_path)).runs[:3]
    digests = {configuration(read_scenario(run)) for run in runs}
    assert len(digests) == 1
    result = step_result(step_time_s=4.0, breakdown_s={"gemm": 4.0}, hidden_s={}, memory=(stage_memory(),))
    predictor = Predictor({digests.pop(): result})  # nothing left to simulate
    scored = [predictor.score(run) for run in runs]
    assert [run.measured_step_s for run in scored] == [
        2.0,
        2.0,
        2.0,
    ]  # 65,536 tokens over 8 GPUs; 16 sequences
    assert [run.error for run in scored] == [1.0, 1.0, 1.0]
    assert [read_scenario(run).name for run in runs] == ["seconds", "tokens", "samples"]


def test_a_refused_scenario_is_a_result_not_an_error(tmp_path: Path) -> None:
    later = load_file(file_of(tmp_path)).runs[3]
    scored = Predictor().score(later)
    assert "ledger.yaml:10:" in scored.failure
    assert "cp" in scored.failure
    assert (scored.predicted, scored.error) == (None, None)
    assert (scored.gpu, scored.n_gpus, scored.stack) == ("mi325x", 8, "primus-2026-mi325x")
    assert scored.to_dict()["note"].startswith("not predicted: ")


def test_scoring_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    file = load_file(file_of(tmp_path))
    only_refused = replace(file, runs=file.runs[3:])
    assert [run.run.id for run in score_files([only_refused]).runs] == ["later"]
