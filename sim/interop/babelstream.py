"""BabelStream's table of kernels, as text or CSV, once per process that ran it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sim.interop.columns import names_of, row_of
from sim.interop.lines import Line, error_at
from sim.interop.printed import Printed, printed

FORMAT = "BabelStream"
ARRAYS = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2, "Nstream": 4}
"""Arrays that each kernel reads or writes."""

_HEADER = re.compile(r"Function\s+(M(?:i)?)Bytes/sec\b")
_CSV = "max_mbytes_per_sec"
_KERNELS = {name.lower(): name for name in ARRAYS}
_TOLERANCE = 0.01  # figures are printed with five digits or more


@dataclass(frozen=True)
class StreamRow:
    """Best bandwidth of one kernel; times are None where they were not recorded."""

    line: int
    kernel: str
    bandwidth_Bps: float
    min_s: float | None = None
    max_s: float | None = None
    average_s: float | None = None


@dataclass(frozen=True)
class BabelStreamLog:
    path: str
    rows: tuple[StreamRow, ...]
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    format: str = FORMAT


def recognises(text: str) -> bool:
    return bool(_HEADER.match(text)) or text.startswith("BabelStream") or _CSV in names_of(text)


def read(path: str, lines: Iterable[Line]) -> BabelStreamLog:
    """Raises ``LogError`` for a kernel without a bandwidth and for a log without kernels."""
    rows: list[StreamRow] = []
    unit = 1e6
    csv: tuple[str, ...] = ()
    first: Line | None = None
    for line in lines:
        first = first or line
        header = _HEADER.match(line.text)
        if header:
            unit, csv = (2.0**20 if header[1] == "Mi" else 1e6), ()
        elif _CSV in names_of(line.text):
            csv = names_of(line.text)
        elif csv:
            rows.append(_csv_row(line, csv))
        elif line.text.split(maxsplit=1)[0].lower() in _KERNELS:
            rows.append(_row(line, unit))
    if not rows:
        raise error_at(
            first,
            path,
            "no kernels: rows such as 'Copy 4177285 0.0012 0.0013 0.0012' are due; did the run finish?",
        )
    return BabelStreamLog(path, tuple(rows), contradictions=tuple(_contradictions(path, rows)))


def _row(line: Line, unit: float) -> StreamRow:
    name, *fields = line.text.split()
    numbers = [_number(line, field) for field in fields]
    if not numbers or numbers[0] is None or not numbers[0].value:
        raise line.error(f"{name} without a bandwidth: MBytes/sec is due here; is the log cut off?")
    times = [None if n is None else n.value for n in (*numbers[1:4], None, None, None)]
    return StreamRow(line.number, _KERNELS[name.lower()], numbers[0].value * unit, *times[:3])


def _csv_row(line: Line, header: tuple[str, ...]) -> StreamRow:
    row = row_of(line, header)
    kernel = _KERNELS.get(row.text("function").lower())
    if kernel is None:
        raise line.error(f"{row.text('function')!r}: one of {', '.join(ARRAYS)} is due here")
    times = [row.value(name) for name in ("min_runtime", "max_runtime", "avg_runtime")]
    return StreamRow(line.number, kernel, row.required(_CSV, 1e6), *times)


def _number(line: Line, text: str) -> Printed | None:
    try:
        return printed(text)
    except ValueError as error:
        raise line.error(str(error)) from None


def _contradictions(path: str, rows: list[StreamRow]) -> Iterable[str]:
    """Within one table every kernel runs over arrays of one size: bandwidth x time says which."""
    expected: float | None = None
    seen: set[str] = set()
    for row in rows:
        if row.kernel in seen:
            seen, expected = set(), None
        seen.add(row.kernel)
        if row.min_s is None:
            continue
        array = row.bandwidth_Bps * row.min_s / ARRAYS[row.kernel]
        expected = expected or array
        if abs(array / expected - 1) > _TOLERANCE:
            yield (
                f"{path}:{row.line}: {row.kernel}: bandwidth x time is {array / 1e6:.4g} MB an array, "
                f"{expected / 1e6:.4g} MB in the rows before"
            )
