"""Kineto (Chrome) trace of one step: opens in ui.perfetto.dev, and tools for PyTorch traces read it.

One process per pipeline stage, one thread per stream. Times are microseconds from the start of the step.
Communication carries NCCL kernel names, because trace tools tell it from computation by name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sim.causes import COMMUNICATION
from sim.results import Record, StepResult

STREAMS = {
    "compute": 7,
    "collective": 20,
    "send": 24,
    "input": 28,
    "to host": 32,
    "from host": 36,
}  # thread ids in the order a person wants to see
COPIES = {"to host": "Memcpy DtoH", "from host": "Memcpy HtoD"}
_HOST_THREAD = 1
_DECIMALS = 6  # of a microsecond
_NCCL = {
    "all_reduce": "AllReduce_Sum",
    "reduce_scatter": "ReduceScatter_Sum",
    "all_gather": "AllGather",
    "gather": "AllGather",
    "send": "SendRecv",
    "receive": "SendRecv",
}
_GAPS = ("launch", "host", "bubble", "data")  # causes with no kernel on the stream


def write_trace(result: StepResult, path: Path) -> int:
    """Writes the trace to ``path`` (gzip when the name ends in ``.gz``); returns the number of slices.

    Same result, same bytes. Raises ``OSError`` when the file cannot be written.
    """
    text = json.dumps(trace(result), separators=(",", ":"), ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return len(result.records)


def trace(result: StepResult) -> dict[str, Any]:
    """The trace as JSON types."""
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": result.gpus},
        "trainsim": {
            "scenario": result.scenario_name,
            "scenario_hash": result.scenario_hash,
            "version": result.version,
        },
        "traceEvents": [*_names(result), *_steps(result), *_slices(result), *_memory(result)],
    }


def _memory(result: StepResult) -> Iterator[dict[str, Any]]:
    """Allocated bytes of each stage as a counter, the most of every stretch of time."""
    for row in result.memory_over_time():
        yield {
            "ph": "C",
            "name": "allocated bytes",
            "pid": row.stage,
            "tid": 0,
            "ts": _microseconds(row.start_s),
            "args": {"bytes": row.allocated_bytes},
        }


def _names(result: StepResult) -> Iterator[dict[str, Any]]:
    seen: dict[int, dict[str, None]] = {}
    ranks: dict[int, int] = {}
    for record in result.records:
        seen.setdefault(record.role, {})[record.stream] = None
        ranks.setdefault(record.role, record.rank)
    for role in sorted(seen):
        yield _metadata("process_name", role, 0, {"name": f"stage {role} (rank {ranks[role]}, {result.gpu})"})
        yield _metadata("process_sort_index", role, 0, {"sort_index": role})
        yield _metadata("thread_name", role, _HOST_THREAD, {"name": "step"})
        for stream in sorted(seen[role], key=_thread):
            yield _metadata(
                "thread_name", role, _thread(stream), {"name": f"stream {_thread(stream)} {stream}"}
            )
            yield _metadata("thread_sort_index", role, _thread(stream), {"sort_index": _thread(stream)})


def _metadata(event: str, process: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": event, "pid": process, "tid": thread, "args": args}


def _steps(result: StepResult) -> Iterator[dict[str, Any]]:
    for role in sorted({record.role for record in result.records}):
        yield {
            "ph": "X",
            "cat": "user_annotation",
            "name": "ProfilerStep#1",
            "pid": role,
            "tid": _HOST_THREAD,
            "ts": 0.0,
            "dur": _microseconds(result.step_time_s),
            "args": {},
        }


def _slices(result: StepResult) -> Iterator[dict[str, Any]]:
    for correlation, record in enumerate(result.records, start=1):
        start, end = _microseconds(record.start_s), _microseconds(record.end_s)
        yield {
            "ph": "X",
            "cat": _category(record),
            "name": slice_name(record, result.layout),
            "pid": record.role,
            "tid": _thread(record.stream),
            "ts": start,
            "dur": round(end - start, _DECIMALS),
            "args": {
                "device": record.role,
                "stream": _thread(record.stream),
                "correlation": correlation,
                "rank": record.rank,
                "task": record.task,
                "kind": record.kind,
                "cause": record.cause,
                "bytes": record.bytes,
                "flops": record.flops,
            },
        }


def _category(record: Record) -> str:
    if record.stream in COPIES:
        return "gpu_memcpy"
    return "gpu_user_annotation" if _is_gap(record) else "kernel"


def slice_name(record: Record, layout: Mapping[str, Any]) -> str:
    """The kernel name of one record: an NCCL name for communication, else its cause and task."""
    if record.stream in COPIES:
        return f"{COPIES[record.stream]} ({record.task})"
    if _is_gap(record):
        return f"{record.cause} ({record.task})"
    if record.cause in COMMUNICATION or record.stream in ("collective", "send"):
        return f"ncclDevKernel_{_nccl(record, layout)}({record.task})"
    return f"{record.cause} ({record.task})"


def _is_gap(record: Record) -> bool:
    return record.kind == "wait" or record.cause in _GAPS


def _nccl(record: Record, layout: Mapping[str, Any]) -> str:
    if record.kind in _NCCL:
        return _NCCL[record.kind]
    if record.kind == "reduce":
        return _NCCL["all_reduce" if layout.get("data_sharding") == "ddp" else "reduce_scatter"]
    if record.cause == "tensor_parallel":  # all exchanges of a chunk in one slice
        return "AllGather_ReduceScatter" if layout.get("sequence_parallel") else _NCCL["all_reduce"]
    return "Generic"


def _thread(stream: str) -> int:
    """A fixed thread id for the usual streams; others follow from their name, so that bytes never change."""
    return STREAMS.get(stream) or 100 + sum(stream.encode()) % 899


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, _DECIMALS)
