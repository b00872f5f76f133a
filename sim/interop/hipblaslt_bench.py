"""Output of hipblaslt-bench: 2023 columns, today's, and builds that sample the clock. Columns go by name.

Where several solutions were timed, only the rows of ``Winner:`` blocks count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sim.interop.columns import Row, names_of, row_of
from sim.interop.gemm_row import GemmRow
from sim.interop.lines import Line, error_at
from sim.interop.number_formats import number_format
from sim.interop.printed import Printed

FORMAT = "hipblaslt-bench"
_RATE = "hipblaslt-Gflops"


@dataclass(frozen=True)
class HipblasltLog:
    path: str
    rows: tuple[GemmRow, ...]
    warnings: tuple[str, ...]
    contradictions: tuple[str, ...]
    format: str = FORMAT


def recognises(text: str) -> bool:
    return _RATE in text and "," in text


def read(path: str, lines: Iterable[Line]) -> HipblasltLog:
    """Raises ``LogError`` for a row cut off or without its figures, and for a header without rows."""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    rows = reader.winners or reader.rows
    if not rows:
        raise error_at(
            reader.at, path, "a header without rows: did the run finish? A row per GEMM is due below it"
        )
    odd = tuple(message for row in rows if (message := _contradiction(path, row)))
    warnings: tuple[str, ...] = ()
    if reader.winners and len(reader.rows) > len(reader.winners):
        skipped = len(reader.rows) - len(reader.winners)
        warnings = (f"{path}: {skipped} rows of slower solutions left out: the Winner blocks count",)
    return HipblasltLog(path, tuple(_gemm(row) for row in rows), warnings, odd)


@dataclass
class _Reader:
    header: tuple[str, ...] = ()
    at: Line | None = None
    winner: bool = False
    rows: list[Row] = field(default_factory=list)
    winners: list[Row] = field(default_factory=list)

    def take(self, line: Line) -> None:
        self.at = self.at or line
        text = _without_index(line.text)
        if recognises(text):
            self.header, self.at = names_of(text), line
        elif text.lower().startswith("winner"):
            self.winner = True
        elif self.header and _begins_like_a_row(text):
            row = row_of(Line(line.path, line.number, text, line.ended), self.header)
            self.rows.append(row)
            if self.winner:
                self.winners.append(row)
            self.winner = False


def _without_index(text: str) -> str:
    """Without ``[0]:``, the number of the solution."""
    number, _, rest = text.partition("]:")
    return rest.strip() if rest and number.startswith("[") and number[1:].isdecimal() else text


def _begins_like_a_row(text: str) -> bool:
    """transA is the first column: N, T or C."""
    return text[:2] in ("N,", "T,", "C,")


def _gemm(row: Row) -> GemmRow:
    transposes = row.text("transA") + row.text("transB")
    return GemmRow(
        line=row.line.number,
        m=row.count("m"),
        n=row.count("n"),
        k=row.count("k"),
        dtype=number_format(row.text("a_type")),
        time_s=row.required("us", 1e-6),
        rate_flops=row.required(_RATE, 1e9),
        batch=row.count("batch_count") if row.text("batch_count") else 1,
        grouped=row.text("grouped_gemm") not in ("", "0"),
        transposes=transposes,
        bandwidth_Bps=row.value("hipblaslt-GB/s", scale=2**30),  # GiB/s, whatever the name says
        clock_Hz=row.value("lowest-median-freq", "lowest-avg-freq", scale=1e6),
        memory_clock_Hz=row.value("median-MCLK", "avg-MCLK", scale=1e6),
    )


def _contradiction(path: str, row: Row) -> str:
    """A rate that is not 2mnk over the time beyond the rounding of both; empty when it is."""
    rate, time = row.number(_RATE), row.number("us")
    if rate is None or time is None or time.value == 0:
        raise row.line.error(f"{_RATE} and us are due: figures above 0")
    gemm = _gemm(row)
    if gemm.grouped:
        return ""  # m, n, k are those of the first member
    low, high = Printed(gemm.flop * 1e-3, 0.0).over(time)  # FLOP per us * 1e-3 = GFLOP/s
    if rate.high >= low * (1 - 1e-3) and rate.low <= high * (1 + 1e-3):
        return ""
    return (
        f"{path}:{row.line.number}: {rate.value:g} GFLOP/s is not the work over the time: "
        f"2 x {gemm.m} x {gemm.n} x {gemm.k} in {time.value:g} us is {gemm.flop / time.value * 1e-3:.6g}"
    )
