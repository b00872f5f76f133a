"""Logs of TorchTitan: ``step: 10  loss:  8.1  memory: 47.55GiB(60.12%)  tps: 6,012  tflops: 312.1  mfu: 31.55%``.

``tps`` (``wps`` before 2025) is tokens per second and GPU, whatever the parallelism; memory is what the allocator
reserved at most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from sim.interop.lines import Line
from sim.interop.training_log import (
    StepCollector,
    TrainingLog,
    TrainingStep,
    number,
    uncoloured,
    whole,
)

FORMAT = "TorchTitan training"
_DUE = "step: 10  loss: 8.1  memory: 47.55GiB(60.12%)  tps: 6,012"
_STEP = re.compile(r"(?:^|\s)step:\s{0,20}(\d{1,12})\s+loss:\s*(.*)$")
_FIELD = re.compile(r"\b(m?memory|tps|wps|tflops|mfu):\s*([\d.,]{1,30})(GiB)?(%)?(?=[\s(]|$)")
_RANK = re.compile(r"\[?rank-?(\d{1,7})(?:/(\d{1,7}))?\]")
_PEAK = re.compile(r"Peak FLOPS used for computing MFU:\s*([\d.]+e[+-]?\d{1,3})\b")
_START = re.compile(
    r"\b(local batch size|global batch size|gradient accumulation steps|sequence length) (\d{1,9})\b"
)
_MESH = re.compile(r"device mesh with parallelism:\s*(.*)$")
_NAMED_MESH = re.compile(r"device mesh with \[([^\]]{0,200})\], \[([\d, ]{1,100})\]")
_DEGREE = re.compile(r"\b([a-z_]{2,20})=(\d{1,7})\b")
_CAPACITY = re.compile(r"capacity: .{0,200}? with ([\d.]{1,20})GiB memory")
_WORLD_AXES = ("dp_replicate", "dp_shard", "cp", "tp", "pp")
_GIBI = 2.0**30


def recognises(text: str) -> bool:
    return bool(_STEP.search(text)) and ("tps:" in text or "wps:" in text)


def read(path: str, lines: Iterable[Line]) -> TrainingLog:
    """Raises ``LogError`` for a log without a whole line of a step."""
    found = StepCollector()
    settings: dict[str, str] = {}
    peak, capacity = None, None
    for line in uncoloured(lines):
        text = line.text
        if (step := _STEP.search(text)) is not None:
            rank = _RANK.search(text)
            if rank is not None and rank[2]:
                settings["world_size"] = rank[2]
            _add_step(found, line, int(step[1]), step[2], line.printer if rank is None else rank[1])
        elif (mesh := _MESH.search(text)) is not None:
            settings.update((name, degree) for name, degree in _DEGREE.findall(mesh[1]))
        elif (mesh := _NAMED_MESH.search(text)) is not None:
            names = [name.strip(" '\"") for name in mesh[1].split(",")]
            settings.update(zip(names, (size.strip() for size in mesh[2].split(",")), strict=False))
        elif (said := _PEAK.search(text)) is not None:
            peak = float(said[1])
        elif (said := _CAPACITY.search(text)) is not None:
            size = number(said[1])
            capacity = None if size is None else size * _GIBI
        else:
            settings.update((name.replace(" ", "_"), value) for name, value in _START.findall(text))
    steps = found.finish(path, FORMAT, _DUE)
    degrees = [whole(settings, axis) for axis in _WORLD_AXES]
    product = math.prod(degree or 1 for degree in degrees) if any(degrees) else None
    return TrainingLog(
        path=path,
        format="TorchTitan",
        steps=steps,
        memory=tuple(found.peaks.values()),
        settings=settings,
        gpus=whole(settings, "world_size") or product,
        global_batch=whole(settings, "global_batch_size"),
        sequence_length=whole(settings, "sequence_length"),
        peak_flops=peak,
        capacity_bytes=capacity,
        warnings=tuple(found.warnings),
    )


def _add_step(found: StepCollector, line: Line, iteration: int, rest: str, rank: str) -> None:
    values: dict[str, float] = {}
    matches = list(_FIELD.finditer(rest))
    for match in matches:
        at_end = match.end() == len(rest)
        value = number(match[2])
        if value is not None and not (at_end and not line.ended):  # else its last digits may be missing
            values[match[1]] = value
    rate = values.get("tps", values.get("wps"))
    if rate is None:
        found.torn.append(line)
        return
    mfu = values.get("mfu")
    found.add(
        TrainingStep(
            place=line.place,
            iteration=iteration,
            start=0,
            seconds=None,
            tokens_per_s_per_gpu=rate,
            tflops=values.get("tflops"),
            mfu=None if mfu is None else mfu / 100.0,
        ),
        rank,
    )
    memory = values.get("memory", values.get("mmemory"))
    if memory is not None:
        found.remember("reserved", memory * _GIBI, line)
