"""ROCm Validation Suite, GEMM stress (gst): the lines with a target are its final results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sim.interop.lines import Line, error_at
from sim.interop.number_formats import number_format

FORMAT = "rvs"
_RESULT = re.compile(r"\[(?:RESULT|INFO|ERROR)\s*\]\s*\[\s*[\d.]+\s*\]")
_RATE = re.compile(r"\[([^\[\]]+)\]\s*\[GPU::\s*(\d{1,9})\s*\]\s*GFLOPS\s+([\d.]+)\b(.*)$")
_TARGET = re.compile(r"\s*Target GFLOPS:\s*([\d.]+)\s+met:\s*(TRUE|FALSE)\b", re.IGNORECASE)
_DTYPE = re.compile(r"(?:^|[-_])(fp8_r|fp8|bf16_r|bf16|fp16_r|fp16|fp32_r|fp32|i8_r)(?:[-_]|$)")


@dataclass(frozen=True)
class RvsRow:
    """One final result."""

    line: int
    action: str
    gpu: int
    rate_flops: float
    target_flops: float
    met: bool
    dtype: str


@dataclass(frozen=True)
class RvsLog:
    """``samples`` counts the intermediate rates that are not results."""

    path: str
    rows: tuple[RvsRow, ...]
    samples: int
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    format: str = FORMAT


def recognises(text: str) -> bool:
    return bool(_RESULT.match(text))


def read(path: str, lines: Iterable[Line]) -> RvsLog:
    """Raises ``LogError`` for a log without any final result."""
    rows: list[RvsRow] = []
    samples, last = 0, None
    for line in lines:
        last = line
        found = _RATE.search(line.text)
        if found is None:
            continue
        if "Target" in found[4]:
            rows.append(_row(line, found))
        else:
            samples += 1
    if not rows:
        raise error_at(
            last,
            path,
            "no final result: a line with 'GFLOPS … Target GFLOPS: … met: …' is due; was the run stopped?",
        )
    return RvsLog(path, tuple(rows), samples)


def _row(line: Line, found: re.Match[str]) -> RvsRow:
    target = _TARGET.match(found[4])
    if target is None:
        raise line.error("a result without 'Target GFLOPS: NUMBER met: TRUE|FALSE': is the log cut off?")
    try:
        rate, goal = float(found[3]) * 1e9, float(target[1]) * 1e9
    except ValueError:
        raise line.error("GFLOPS is no number: a rate such as 1687129 is due here") from None
    dtype = _DTYPE.search(found[1])
    word = dtype[1].removesuffix("_r") if dtype else ""
    return RvsRow(
        line.number, found[1], int(found[2]), rate, goal, target[2].upper() == "TRUE", number_format(word)
    )
