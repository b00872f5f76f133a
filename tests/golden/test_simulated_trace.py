"""The trace of a real simulation, with pipeline, tensor and data parallelism: nothing lost, nothing twice on a stream."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

import pytest

import sim
from sim.report.trace import trace
from sim.results import StepResult

SCENARIO = """
schema: 1
name: trace
model: llama-3.1-8b
cluster: {node: mi300x-8x400g, nodes: 2}
training: {sequence_length: 2048, global_batch: 16, micro_batch: 1, precision: bf16, recompute: full}
parallelism: {tp: 2, pp: 4, data_sharding: zero-1}
"""


@pytest.fixture(scope="module")
def result() -> StepResult:
    return sim.simulate(sim.loads(SCENARIO))


@pytest.fixture(scope="module")
def slices(result: StepResult) -> list[dict[str, Any]]:
    events = trace(result)["traceEvents"]
    return [e for e in events if e["ph"] == "X" and e["cat"] != "user_annotation"]


def test_slices_are_the_records(result: StepResult, slices: list[dict[str, Any]]) -> None:
    assert len(slices) == len(result.records)
    recorded = sum(r.end_s - r.start_s for r in result.records)
    assert sum(e["dur"] for e in slices) * 1e-6 == pytest.approx(recorded, rel=1e-9)


def test_no_stream_does_two_things_at_once(slices: list[dict[str, Any]]) -> None:
    ordered = sorted(slices, key=lambda e: (e["pid"], e["tid"], e["ts"]))
    for _, events in groupby(ordered, key=lambda e: (e["pid"], e["tid"])):
        for earlier, later in pairwise(events):
            assert earlier["ts"] + earlier["dur"] <= later["ts"] + 1e-3  # a nanosecond of rounding


def test_the_last_slice_ends_with_the_step(result: StepResult, slices: list[dict[str, Any]]) -> None:
    assert max(e["ts"] + e["dur"] for e in slices) * 1e-6 == pytest.approx(result.step_time_s, rel=1e-9)


def test_every_kind_of_communication_is_there_by_its_kernel_name(slices: list[dict[str, Any]]) -> None:
    names = {e["name"].split("(")[0] for e in slices}
    assert {"ncclDevKernel_SendRecv", "ncclDevKernel_ReduceScatter_Sum", "ncclDevKernel_AllGather"} <= names
