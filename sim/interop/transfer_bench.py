"""TransferBench: single transfers, and the summary of its all-pairs preset, with | or , between cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sim.interop.lines import Line, error_at
from sim.interop.printed import is_missing, printed, shown

FORMAT = "TransferBench"

_COPYING = re.compile(r"-?\s*Copying (\d{1,15}) bytes between all pairs of GPUs(?: using (\d{1,6}) CUs)?")
_EXECUTOR = re.compile(r"Executor:\s*(.+?)\s*[|,]")
_TRANSFER = re.compile(r"Transfer\s+\d+\s*[|,]")
_TOTAL = re.compile(r"(Average|Aggregate)\s+bandwidth \((GPU|CPU) Timed\):\s*(\S+)\s*GB/s")
_MATRIX = re.compile(r"SRC[\\+/]DST\s*[|,]")
_FROM = re.compile(r"GPU\s+(\d{1,6})\s*[|,]")
_GPU = re.compile(r"GPU\s*\d{1,6}")
_ROUTE = re.compile(r"(\S+)\s*->\s*(\S+)\s*->\s*(\S+)")
_RANGE = re.compile(r"([\d.]+)\.\.([\d.]+)")


@dataclass(frozen=True)
class Transfer:
    """One copy. ``executor`` is what moved the bytes (``GPU00:008``: GPU 0 with 8 CUs)."""

    line: int
    source: str
    executor: str
    destination: str
    size_bytes: int
    bandwidth_Bps: float | None
    time_s: float | None


@dataclass(frozen=True)
class GpuTotal:
    """What one GPU sends: the sum over its links, and what its slowest link leaves of it; low and high of a range."""

    gpu: int
    sum_Bps: tuple[float, float] | None
    actual_Bps: tuple[float, float] | None


@dataclass(frozen=True)
class TransferBenchLog:
    """``pairs_Bps`` holds GPU to GPU rates of the summary; figures that were not recorded are None or absent."""

    path: str
    size_bytes: int | None
    compute_units: int | None
    transfers: tuple[Transfer, ...]
    pairs_Bps: Mapping[tuple[int, int], float]
    gpus: tuple[GpuTotal, ...]
    average_gpu_Bps: float | None
    aggregate_gpu_Bps: float | None
    aggregate_cpu_Bps: float | None
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    format: str = FORMAT


def recognises(text: str) -> bool:
    return bool(
        text.startswith("TransferBench v")
        or _COPYING.match(text)
        or _EXECUTOR.match(text)
        or _TOTAL.match(text)
        or _MATRIX.match(text)
    )


def read(path: str, lines: Iterable[Line]) -> TransferBenchLog:
    """Raises ``LogError`` for a row cut off and for a log without any bandwidth."""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    totals = reader.totals
    if not any(
        (reader.pairs, totals, reader.gpus, [t for t in reader.transfers if t.bandwidth_Bps is not None])
    ):
        raise error_at(
            reader.first,
            path,
            "no bandwidth: transfers with GB/s or the Summary are due; did the run finish?",
        )
    return TransferBenchLog(
        path=path,
        size_bytes=reader.size_bytes,
        compute_units=reader.compute_units,
        transfers=tuple(reader.transfers),
        pairs_Bps=reader.pairs,
        gpus=tuple(reader.gpus),
        average_gpu_Bps=totals.get(("Average", "GPU")),
        aggregate_gpu_Bps=totals.get(("Aggregate", "GPU")),
        aggregate_cpu_Bps=totals.get(("Aggregate", "CPU")),
    )


@dataclass
class _Reader:
    first: Line | None = None
    size_bytes: int | None = None
    compute_units: int | None = None
    columns: list[str] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    gpus: list[GpuTotal] = field(default_factory=list)
    totals: dict[tuple[str, str], float] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        self.first = self.first or line
        copying, total, text = _COPYING.match(line.text), _TOTAL.match(line.text), line.text
        if copying:
            self.size_bytes = int(copying[1])
            self.compute_units = int(copying[2]) if copying[2] else None
        elif total:
            value = _number(line, total[3])
            if value is not None:
                self.totals[total[1], total[2]] = value * 1e9
        elif _TRANSFER.match(text):
            self.transfers.append(_transfer(line))
        elif _MATRIX.match(text):
            self.columns = _cells(text)
        elif self.columns and _FROM.match(text):
            self._from(line)

    def _from(self, line: Line) -> None:
        """One row of the summary: to each GPU, then the sum and the actual rate."""
        cells = _cells(line.text)
        if len(cells) != len(self.columns):
            raise line.error(f"a row of {len(cells)} cells, {len(self.columns)} are due: is the log cut off?")
        source = int(_FROM.match(line.text)[1])  # type: ignore[index]  # matched by the caller
        by_name = dict(zip(self.columns, cells, strict=True))
        for name, cell in by_name.items():
            if name.startswith("GPU") and _GPU.fullmatch(name):
                value = _number(line, cell)
                if value is not None:
                    self.pairs[source, int(name[3:])] = value * 1e9
        total, actual = _range(line, by_name.get("STotal", "")), _range(line, by_name.get("Actual", ""))
        if total or actual:
            self.gpus.append(GpuTotal(source, total, actual))


def _cells(text: str) -> list[str]:
    """Cells after the row's name."""
    separator = "|" if "|" in text else ","
    return [cell.strip() for cell in text.split(separator)][1:]


def _transfer(line: Line) -> Transfer:
    cells = _cells(line.text)
    route = _ROUTE.search(line.text)
    if len(cells) < 4 or route is None:
        raise line.error(
            "a transfer without 'GB/s | ms | bytes | source -> executor -> destination': is the log cut off?"
        )
    bandwidth, time, size = (_number(line, cell.split()[0] if cell else "") for cell in cells[:3])
    if size is None:
        raise line.error("a transfer without its bytes: a number is due here")
    return Transfer(
        line=line.number,
        source=route[1],
        executor=route[2],
        destination=route[3],
        size_bytes=int(size),
        bandwidth_Bps=None if bandwidth is None else bandwidth * 1e9,
        time_s=None if time is None else time * 1e-3,
    )


def _range(line: Line, cell: str) -> tuple[float, float] | None:
    """``325..327`` or one figure, GB/s, in bytes/s."""
    match = _RANGE.fullmatch(cell)
    low, high = (match[1], match[2]) if match else (cell, cell)
    values = (_number(line, low), _number(line, high))
    return None if values[0] is None or values[1] is None else (values[0] * 1e9, values[1] * 1e9)


def _number(line: Line, text: str) -> float | None:
    if is_missing(text):
        return None
    try:
        found = printed(text)
    except ValueError:
        raise line.error(f"{shown(text)}: a number is due here") from None
    return None if found is None else found.value
