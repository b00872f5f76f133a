"""The trace holds exactly the records, in the form that Kineto readers expect."""

from __future__ import annotations

import gzip
import json
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from fakes.results import records, step_result

from sim.report.trace import slice_name, trace, write_trace
from sim.results import Record
from sim.step import simulate
from tests.fakes.scenarios import small

Event = dict[str, Any]


def gpu_slices(content: dict[str, Any]) -> list[Event]:
    return [e for e in content["traceEvents"] if e["ph"] == "X" and e["cat"] != "user_annotation"]


def stream_of(event: Event) -> tuple[int, int]:
    return event["pid"], event["tid"]


@pytest.fixture
def content(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "step.json"
    write_trace(step_result(), path)
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def test_slices_sum_to_the_records(content: dict[str, Any]) -> None:
    slices = gpu_slices(content)
    assert len(slices) == len(records())
    assert sum(e["dur"] for e in slices) * 1e-6 == pytest.approx(
        sum(r.end_s - r.start_s for r in records()), rel=1e-12
    )
    assert sum(e["args"]["flops"] for e in slices) == sum(r.flops for r in records())


def test_slices_of_one_stream_do_not_overlap(content: dict[str, Any]) -> None:
    slices = sorted(gpu_slices(content), key=lambda e: (*stream_of(e), e["ts"]))
    for _, events in groupby(slices, key=stream_of):
        for earlier, later in pairwise(events):
            assert earlier["ts"] + earlier["dur"] <= later["ts"] + 1e-6


def test_every_slice_has_what_kineto_readers_need(content: dict[str, Any]) -> None:
    for event in gpu_slices(content):
        assert {"device", "stream", "correlation"} <= event["args"].keys()
        assert event["args"]["stream"] == event["tid"]
    assert content["distributedInfo"] == {"backend": "nccl", "rank": 0, "world_size": 16}
    correlations = [e["args"]["correlation"] for e in gpu_slices(content)]
    assert len(set(correlations)) == len(correlations)


def test_one_process_per_stage_and_one_named_thread_per_stream(content: dict[str, Any]) -> None:
    names = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in content["traceEvents"] if e["name"] == "thread_name"
    }
    assert {stream_of(e) for e in gpu_slices(content)} <= names.keys()
    processes = {e["pid"]: e["args"]["name"] for e in content["traceEvents"] if e["name"] == "process_name"}
    assert processes == {0: "stage 0 (rank 0, MI325X)", 1: "stage 1 (rank 8, MI325X)"}


def test_each_stage_has_a_profiler_step_as_long_as_the_step(content: dict[str, Any]) -> None:
    steps = [e for e in content["traceEvents"] if e["name"].startswith("ProfilerStep#")]
    assert [(e["pid"], e["ts"], e["dur"]) for e in steps] == [(0, 0.0, 6.75e6), (1, 0.0, 6.75e6)]


def test_waits_are_no_kernels(content: dict[str, Any]) -> None:
    kinds = {e["args"]["kind"]: e["cat"] for e in gpu_slices(content)}
    assert kinds["wait"] == "gpu_user_annotation"
    assert kinds["forward"] == kinds["send"] == "kernel"


@pytest.mark.parametrize(
    ("kind", "cause", "stream", "layout", "name"),
    [
        ("all_reduce", "data_parallel", "collective", {}, "ncclDevKernel_AllReduce_Sum(x)"),
        ("reduce", "data_parallel", "collective", {"data_sharding": "ddp"}, "ncclDevKernel_AllReduce_Sum(x)"),
        (
            "reduce",
            "data_parallel",
            "collective",
            {"data_sharding": "fsdp"},
            "ncclDevKernel_ReduceScatter_Sum(x)",
        ),
        ("gather", "data_parallel", "collective", {}, "ncclDevKernel_AllGather(x)"),
        ("send", "pipeline", "send", {}, "ncclDevKernel_SendRecv(x)"),
        ("forward", "tensor_parallel", "compute", {}, "ncclDevKernel_AllReduce_Sum(x)"),
        (
            "forward",
            "tensor_parallel",
            "compute",
            {"sequence_parallel": True},
            "ncclDevKernel_AllGather_ReduceScatter(x)",
        ),
        ("forward", "gemm", "compute", {}, "gemm (x)"),
        ("forward", "launch", "compute", {}, "launch (x)"),
    ],
)
def test_communication_is_recognised_by_its_kernel_name(
    kind: str, cause: str, stream: str, layout: dict[str, Any], name: str
) -> None:
    assert slice_name(Record(0, 0, stream, "x", kind, cause, 0.0, 1.0, 0.0, 0.0), layout) == name


def test_gzip_holds_the_same_json_and_never_a_date(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    assert write_trace(step_result(), first) == len(records())
    write_trace(step_result(), second)
    assert first.read_bytes() == second.read_bytes()
    assert json.loads(gzip.decompress(first.read_bytes())) == json.loads(json.dumps(trace(step_result())))


def test_memory_is_a_counter_and_copies_have_names_of_copies() -> None:
    scenario = small("training.offload.activation_layers=1")
    result = simulate(scenario)
    events = trace(result)["traceEvents"]
    levels = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    assert max(levels) == pytest.approx(result.worst_memory.allocated_bytes)
    copies = [e for e in events if e.get("cat") == "gpu_memcpy"]
    assert len(copies) == 2 * scenario.microbatches
    assert {e["name"].split(" (")[0] for e in copies} == {"Memcpy DtoH", "Memcpy HtoD"}
