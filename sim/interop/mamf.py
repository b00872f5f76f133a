"""mamf-finder: its progress lines, or a CSV table of best shapes (gpu, dtype, m, n, k, tflops)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sim.interop.columns import Row, names_of, row_of
from sim.interop.gemm_row import GemmRow
from sim.interop.lines import Line, error_at
from sim.interop.number_formats import number_format

FORMAT = "mamf-finder"
_COLUMNS = {"m", "n", "k", "tflops"}
_LINE = re.compile(
    r"\d+\s*\|\s*([\d.]{1,20})\(mean\)\s+([\d.]{1,20})\(median\)\s+([\d.]{1,20})\(max\)"
    r"\s*@\s*(\d{1,9})x(\d{1,9})x(\d{1,9})\b"
)
_BEGUN = re.compile(r"\d+\s*\|\s*[\d.]+\(mean\)")
_DTYPE = re.compile(r"\bdtype\b[^\w]*(torch\.\w+)", re.IGNORECASE)


@dataclass(frozen=True)
class MamfLog:
    """``rows`` carry the median rate of a progress line."""

    path: str
    rows: tuple[GemmRow, ...]
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    format: str = FORMAT


def recognises(text: str) -> bool:
    return bool(_BEGUN.match(text)) or set(names_of(text)) >= _COLUMNS


def read(path: str, lines: Iterable[Line]) -> MamfLog:
    """Raises ``LogError`` for a row cut off and for a log without rows."""
    rows: list[GemmRow] = []
    header: tuple[str, ...] = ()
    dtype, first = "", None
    for line in lines:
        first = first or line
        said = _DTYPE.search(line.text)
        if said:
            dtype = number_format(said[1])
        if set(names_of(line.text)) >= _COLUMNS:
            header = names_of(line.text)
        elif header and not line.text.startswith("#"):
            rows.append(_table_row(row_of(line, header)))
        elif _BEGUN.match(line.text):
            rows.append(_progress(line, dtype))
    if not rows:
        raise error_at(
            first,
            path,
            "no rows: lines such as '1 | 93.5(mean) 95.3(median) 96.6(max) @ 1024x1024x1024' are due",
        )
    return MamfLog(path, tuple(rows))


def _table_row(row: Row) -> GemmRow:
    m, n, k = (row.count(name) for name in ("m", "n", "k"))
    rate = row.required("tflops", 1e12)
    if not rate:
        raise row.line.error("tflops is 0: a rate above 0 is due here")
    return GemmRow(
        row.line.number,
        m,
        n,
        k,
        number_format(row.text("dtype")),
        2.0 * m * n * k / rate,
        rate,
        gpu=row.text("gpu"),
    )


def _progress(line: Line, dtype: str) -> GemmRow:
    match = _LINE.match(line.text)
    if match is None or not match[2].replace(".", "", 1).isdecimal() or not float(match[2]):
        raise line.error("a progress line without its rates and shape: is the log cut off?")
    m, n, k = (int(match[i]) for i in (4, 5, 6))
    if not m * n * k:
        raise line.error("a shape with a 0: M x N x K above 0 is due here")
    rate = float(match[2]) * 1e12
    return GemmRow(line.number, m, n, k, dtype, 2.0 * m * n * k / rate, rate)
