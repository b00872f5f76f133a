"""Logs of Megatron-LM and of Primus, which prints Megatron's line with more in it.

``iteration 126/ 5000 | consumed samples: 16128 | elapsed time per iteration (ms): 13372.8/13364.7 | …``: of a pair, the
first is the step, the second Primus's own mean. Both divide memory by powers of two whatever they call it: Megatron's
"MB" is a MiB, Primus's "GB" a GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sim.interop.lines import Line
from sim.interop.training_log import (
    StepCollector,
    TrainingLog,
    TrainingStep,
    number,
    only_value,
    uncoloured,
    whole,
)

FORMAT = "Megatron-LM or Primus training"
_DUE = "iteration 10/ 100 | consumed samples: 640 | elapsed time per iteration (ms): 5441.2 |"
_ITERATION = re.compile(r"(?:^|\s)iteration\s{0,20}:?\s{0,20}(\d{1,12})\s*/\s*(\d{1,12})\s*\|(.*)$")
_RANK = re.compile(r"\[rank-(\d{1,7})/(\d{1,7})\]")
_MEMORY = re.compile(
    r"memory \((MB|GB)\)\s*\|.*?max allocated:\s*([\d.]{1,20})\s*\|.*?max reserved:\s*([\d.]{1,20})(?=\s|\||$)"
)
_DEVICE = re.compile(r"([\d.]{1,20})Gi?B/([\d.]{1,20})Gi?B/([\d.]{1,20})Gi?B/")
_ARGUMENT = re.compile(r"(?:^|:)\s*([a-z][a-z0-9_]{0,80})\s\.{1,80}\s(\S.{0,2000})$")
_WORLD = re.compile(r"using world size:\s*(\d{1,9})\b")
_MEBI, _GIBI = 2.0**20, 2.0**30


def recognises(text: str) -> bool:
    return bool(_ITERATION.search(text)) and "elapsed time per iteration" in text


def read(path: str, lines: Iterable[Line]) -> TrainingLog:
    """Raises ``LogError`` for a log without a whole line of a step."""
    found = StepCollector()
    settings: dict[str, str] = {}
    batches: list[int] = []
    worlds: list[int] = []
    primus, capacity, in_dump = False, None, False
    for line in uncoloured(lines):
        text = line.text
        rank = _RANK.search(text)
        if rank is not None:
            primus = True
            worlds.append(int(rank[2]))
        step = _ITERATION.search(text)
        if step is not None:
            fields = _fields(step[3])
            _add_step(found, line, int(step[1]), fields, line.printer if rank is None else rank[1])
            batch = number(fields.get("global batch size", ""))
            batches += [] if batch is None else [int(batch)]
            capacity = _device_memory(found, line, fields) or capacity
            primus = primus or any("mem usage" in name for name in fields)
            continue
        if (memory := _MEMORY.search(text)) is not None:
            _own_memory(found, line, memory)
        elif (said := _WORLD.search(text)) is not None:
            worlds.append(int(said[1]))
        elif "end of arguments" in text:
            in_dump = False
        elif "- arguments -" in text:
            in_dump = True
        elif in_dump and (argument := _ARGUMENT.search(text)) is not None:
            settings[argument[1]] = argument[2].strip()
    steps = found.finish(path, FORMAT, _DUE)
    world = only_value(worlds)
    return TrainingLog(
        path=path,
        format="Primus" if primus else "Megatron-LM",
        steps=steps,
        memory=tuple(found.peaks.values()),
        settings=settings,
        gpus=world if world is not None else whole(settings, "world_size"),
        global_batch=_usual(batches) or whole(settings, "global_batch_size"),
        sequence_length=whole(settings, "seq_length"),
        capacity_bytes=capacity,
        warnings=tuple(found.warnings),
    )


def _fields(rest: str) -> dict[str, str]:
    """Name to value between bars. What follows the last bar may be cut off in the middle of a number."""
    named = (part.partition(": ") for part in rest.split("|")[:-1])
    return {name.strip(): value.strip() for name, _, value in named}


def _add_step(found: StepCollector, line: Line, iteration: int, fields: dict[str, str], rank: str) -> None:
    milliseconds = number(fields.get("elapsed time per iteration (ms)", ""))
    if milliseconds is None:
        found.torn.append(line)
        return
    found.add(
        TrainingStep(
            place=line.place,
            iteration=iteration,
            start=0,
            seconds=milliseconds / 1e3,
            tokens_per_s_per_gpu=_first(
                fields, "tokens per GPU (tokens/s/GPU)", "tokens/s/GPU inst/harmonic mean", "tokens/sec/GPU"
            ),
            tflops=_first(
                fields,
                "throughput per GPU (TFLOP/s/GPU)",
                "compute per GPU (TFLOP/s/GPU)",
            ),
        ),
        rank,
    )


def _first(fields: dict[str, str], *names: str) -> float | None:
    return next((value for name in names if (value := number(fields.get(name, ""))) is not None), None)


def _device_memory(found: StepCollector, line: Line, fields: dict[str, str]) -> float | None:
    """Remembers what the device holds; returns its capacity."""
    capacity = None
    for name, value in fields.items():
        sizes = _DEVICE.match(value) if "mem usage/free/total" in name else None
        if sizes is not None:
            used, total = number(sizes[1]), number(sizes[3])
            if used is not None and total is not None and used <= total:
                found.remember("device", used * _GIBI, line)
                capacity = total * _GIBI
    return capacity


def _own_memory(found: StepCollector, line: Line, memory: re.Match[str]) -> None:
    unit = _MEBI if memory[1] == "MB" else _GIBI
    for kind, text in (("allocated", memory[2]), ("reserved", memory[3])):
        size = number(text)
        if size is not None:
            found.remember(kind, size * unit, line)


def _usual(batches: list[int]) -> int | None:
    """The batch of the last line: a ramp-up ends there."""
    return batches[-1] if batches else None
