from __future__ import annotations

import dataclasses
import json
import pickle
import sys

import pytest
from fakes.results import GIB, records, stage_memory, step_result

from sim.results import PredictionRange, Record, RecordTable


def test_causes_that_do_not_sum_to_the_step_are_refused() -> None:
    with pytest.raises(ValueError, match="causes sum to"):
        step_result(step_time_s=6.75 * (1 + 2e-9))


def test_rounding_noise_is_accepted() -> None:
    assert step_result(step_time_s=6.75 * (1 + 1e-12)).step_time_s > 6.75


@pytest.mark.parametrize("seconds", [-0.25, float("nan")])
def test_negative_and_undefined_times_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="cause 'pipeline' has"):
        step_result(hidden_s={"pipeline": seconds})


def test_memory_parts_must_sum_to_what_is_allocated() -> None:
    with pytest.raises(ValueError, match="memory parts sum to"):
        stage_memory(parts_bytes={"parameters": 1 * GIB})


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="known: fits, at risk, does not fit"):
        stage_memory(verdict="maybe")


def test_no_stage_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one stage"):
        step_result(memory=())


def test_the_worst_stage_has_the_worst_verdict_then_the_most_bytes_then_comes_first() -> None:
    full = stage_memory(2, device_bytes=(200 * GIB, 210 * GIB))
    risky = stage_memory(1, verdict="at risk")
    assert step_result(memory=(stage_memory(0), full, stage_memory(3))).worst_memory is full
    assert step_result(memory=(full, risky)).worst_memory is risky
    assert step_result(memory=(stage_memory(5), stage_memory(6))).worst_memory.stage == 5


def test_only_does_not_fit_does_not_fit() -> None:
    assert step_result(memory=(stage_memory(verdict="at risk"),)).fits
    assert not step_result(memory=(stage_memory(verdict="does not fit"),)).fits


def test_to_dict_has_the_documented_keys_and_is_json() -> None:
    plain = json.loads(json.dumps(step_result().to_dict(), allow_nan=False))
    documented = {
        "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "breakdown_s", "memory", "sources", "warnings",
    }  # fmt: skip
    assert documented <= plain.keys()
    memory = {"rank", "verdict", "allocated_bytes", "reserved_bytes", "device_bytes", "parts_bytes"}
    assert memory <= plain["memory"].keys()
    assert plain["memory"]["reserved_bytes"] == [123.6 * GIB, 130.8 * GIB]
    assert [stage["stage"] for stage in plain["stages"]] == [0, 1]
    assert sum(plain["breakdown_s"].values()) == pytest.approx(plain["step_time_s"], rel=1e-9)
    assert "records" not in plain


def test_the_range_is_in_the_documented_form() -> None:
    result = step_result(
        range_90=PredictionRange(6.0, 8.0, "new model", "words", ("no measured run in mxfp4",))
    )
    assert result.step_time_range_s == (6.0, 8.0)
    assert json.loads(json.dumps(result.to_dict()))["range_90"] == {
        "step_time_s": [6.0, 8.0],
        "kind": "new model",
        "basis": "words",
        "outside": ["no measured run in mxfp4"],
    }
    assert step_result().step_time_range_s is None
    assert step_result().to_dict()["range_90"] is None


@pytest.mark.parametrize(("low_s", "high_s"), [(7.0, 8.0), (5.0, 6.0), (8.0, 6.0)])
def test_a_range_that_does_not_hold_the_step_is_refused(low_s: float, high_s: float) -> None:
    with pytest.raises(ValueError, match="outside its own range"):
        step_result(range_90=PredictionRange(low_s, high_s, "same stack", "words"))


def test_results_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        step_result().mfu = 1.0  # type: ignore[misc]


def test_to_frame_has_one_row_per_record() -> None:
    pytest.importorskip("pandas")
    frame = step_result().to_frame()
    assert list(frame.columns) == list(Record._fields)
    assert len(frame) == len(records())
    assert frame.groupby("cause")["flops"].sum()["gemm"] == 2.4e15


def test_to_frame_without_pandas_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"trainsim\[app\]"):
        step_result().to_frame()


def test_records_are_made_once_and_only_when_somebody_looks() -> None:
    made: list[int] = []

    def make() -> tuple[Record, ...]:
        made.append(1)
        return records()

    table = RecordTable(make)
    assert made == []
    assert len(table) == len(records())
    assert table[0] == records()[0]
    assert table[1:] == records()[1:]
    assert table == records()
    assert made == [1]
    assert pickle.loads(pickle.dumps(table)) == records()
