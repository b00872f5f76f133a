"""Output of rccl-tests and nccl-tests: old and new columns, any launcher's prefixes, or CSV.

Column names come from the table's own header (``root`` and ``#wrong``/``error`` are optional, the
in-place half too). Rows with wrong results are dropped and reported. The number of ranks and the
collective are inferred from what the rows say (``rccl_inference``), and contradictions are kept beside
the table: a reader shows them, a calibration refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sim.interop import columns
from sim.interop.lines import Line, error_at
from sim.interop.printed import Printed, is_missing, printed, shown
from sim.interop.rccl_inference import Inference, infer
from sim.interop.rccl_launch import Device, Launch, LaunchReader
from sim.interop.rccl_rows import HalfRow, RcclRow

__all__ = ["Device", "HalfRow", "Launch", "RcclLog", "RcclRow", "RcclTable", "read", "recognises"]

FORMAT = "rccl-tests"
MOST_BYTES = 2**60

ELEMENT_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "int32": 4, "uint32": 4, "int": 4, "int64": 8, "uint64": 8,
    "half": 2, "float": 4, "double": 8, "bfloat16": 2,
    "fp8_e4m3": 1, "fp8_e5m2": 1, "f8e4m3": 1, "f8e5m2": 1,
}  # fmt: skip

# Largest error that nccl-tests accepts before it counts a result as wrong, by number format.
_TOLERATED_ERROR = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}

_HEADER = re.compile(r"#?\s*size\s+count\s+type\b")
_CSV_HEADER = re.compile(r"(?=.*\bsize\b)(?=.*\bbusbw\b)[\w#]+(?:\s*,\s*[\w#/ ]+){3,}$", re.IGNORECASE)
_ROW = re.compile(rf"\d+\s+\d+\s+(?:{'|'.join(ELEMENT_BYTES)})\s")
_ANY_ROW = re.compile(r"\d+\s+\d+\s+[A-Za-z]\w*\s")
_NUMBERS = re.compile(r"\d+(?:\s+\d+)?$|\d+\s+\d+\s")
_RUN = re.compile(r"#\s*nThread\b")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)")

_BASE = ("size", "count", "type", "redop", "root")
_HALF = ("time", "algbw", "busbw", "#wrong")


@dataclass(frozen=True)
class RcclTable:
    """One run of one test. ``ranks`` and ``collective`` are None where the log does not tell."""

    line: int
    collective: str | None
    ranks: int | None
    launch: Launch
    rows: tuple[RcclRow, ...]
    dropped: tuple[RcclRow, ...]  # rows with wrong results
    odd_rows: tuple[int, ...]  # lines of rows at odds with themselves, or with the others
    contradictions: tuple[str, ...]
    warnings: tuple[str, ...]
    average_busbw_Bps: float | None = None


@dataclass(frozen=True)
class RcclLog:
    """Every table of one file."""

    path: str
    tables: tuple[RcclTable, ...]
    format: str = FORMAT

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(w for table in self.tables for w in (*table.contradictions, *table.warnings))


def recognises(text: str) -> bool:
    """Whether a line can only come from rccl-tests."""
    return bool(_HEADER.match(text) or _ROW.match(text) or _RUN.match(text) or _CSV_HEADER.match(text))


def read(path: str, lines: Iterable[Line]) -> RcclLog:
    """Raises ``LogError`` for a row cut off or that is no row, and for a log without any."""
    reader = _Reader(path)
    for line in lines:
        reader.take(line)
    return reader.finish()


@dataclass
class _Reader:
    path: str
    launch: LaunchReader = field(default_factory=LaunchReader)
    header: tuple[str, ...] | None = None
    csv: tuple[str, ...] | None = None
    start: Line | None = None
    last: Line | None = None
    average: float | None = None
    rows: list[tuple[Line, RcclRow]] = field(default_factory=list)
    tables: list[RcclTable] = field(default_factory=list)

    def take(self, line: Line) -> None:
        self.last, text = line, line.text
        if _CSV_HEADER.match(text) and not text.startswith("#"):
            self._begin(line)
            self.csv = tuple(name.lower() for name in columns.names_of(text))
        elif _RUN.match(text) or (_HEADER.match(text) and self.rows):
            self._begin(line)
            self._comment(line)
        else:
            self._inside(line)

    def finish(self) -> RcclLog:
        self._begin(None)
        if not self.tables:
            at = self.start or self.last
            raise error_at(
                at,
                self.path,
                "a table without rows: did the run finish? Rows of sizes and times are due here",
            )
        return RcclLog(self.path, tuple(self.tables))

    def _inside(self, line: Line) -> None:
        if self.csv is not None and not line.text.startswith("#"):
            self.rows.append((line, _csv_row(line, self.csv)))
        elif (_ANY_ROW if self.header else _ROW).match(line.text):
            self.start = self.start or line
            self.rows.append((line, _row(line, self.header)))
        elif self.start is not None and _NUMBERS.match(line.text):
            _refuse_half_a_row(line)
        else:
            self._comment(line)

    def _comment(self, line: Line) -> None:
        """What is said around the rows: names of columns, devices, settings, the average."""
        average = _AVERAGE.match(line.text)
        if _HEADER.match(line.text):
            self.start = self.start or line
            self.header = tuple(line.text.lstrip("# ").split())
        elif average:
            self.average = _average(line, average[1])
        else:
            self.launch.take(line.text)

    def _begin(self, line: Line | None) -> None:
        """Closes the table so far; ``line`` opens the next one."""
        if self.rows:
            self.tables.append(self._table())
            # One command may print several tables: devices and settings stay until others are listed.
            self.launch = self.launch.next_run()
        self.rows, self.average, self.csv = [], None, None
        if line is not None:
            self.start = line

    def _table(self) -> RcclTable:
        launch = self.launch.launch()
        rows = [row for _, row in self.rows]
        good = tuple(row for row in rows if not row.wrong)
        dropped = tuple(row for row in rows if row.wrong)
        found: Inference = infer(self.path, good, launch, ELEMENT_BYTES)
        warnings = list(found.warnings)
        if dropped:
            sizes = ", ".join(f"{row.size_bytes} (line {row.line})" for row in dropped[:5])
            more = f" and {len(dropped) - 5} more" if len(dropped) > 5 else ""
            warnings.append(
                f"{self.path}:{dropped[0].line}: dropped {len(dropped)} rows with wrong results: {sizes}{more}"
            )
        if self.average is None and self.csv is None:
            at = self.rows[-1][0]
            warnings.append(
                f"{at.place}: no '# Avg bus bandwidth' line after the rows: an excerpt, or a run cut off"
            )
        return RcclTable(
            line=self.rows[0][0].number,
            collective=found.collective,
            ranks=found.ranks,
            launch=launch,
            rows=good,
            dropped=dropped,
            odd_rows=found.odd_rows,
            contradictions=found.contradictions,
            warnings=tuple(warnings),
            average_busbw_Bps=self.average,
        )


def _row(line: Line, header: tuple[str, ...] | None) -> RcclRow:
    fields = line.text.split()
    names = header or _default_header(len(fields))
    first = names.index("time") if "time" in names else len(names)
    second = names.index("time", first + 1) if names.count("time") > 1 else len(names)
    if len(fields) not in (second, len(names)) or not {"algbw", "busbw"} <= set(names):
        due = " or ".join(str(n) for n in sorted({second, len(names)}))
        raise line.error(
            f"a row of {len(fields)} fields, {due} are due (columns {' '.join(names[:second])}): is the log cut off?"
        )
    base = dict(zip(names[:first], fields[:first], strict=True))
    halves = [
        dict(zip(names[first:second], fields[first:second], strict=True)),
        dict(zip(names[second:], fields[second:], strict=False)),
    ]
    return _built(line, base, _half(line, halves[0], base), _half(line, halves[1], base), halves[0])


def _csv_row(line: Line, header: tuple[str, ...]) -> RcclRow:
    """One row of a CSV table; columns beyond the usual ones say how it was run."""
    fields = columns.row_of(line, header).fields
    return _built(line, fields, _half(line, fields, fields), None, fields)


def _built(
    line: Line, base: dict[str, str], out: HalfRow | None, within: HalfRow | None, extra: dict[str, str]
) -> RcclRow:
    if out is None and within is None:
        raise line.error("a row without a bandwidth: a time or busbw is due here")
    channels = _whole(line, extra, "nchannels", "channels")
    return RcclRow(
        line=line.number,
        size_bytes=_required(line, base, "size"),
        count=_whole(line, base, "count"),
        dtype=base.get("type", ""),
        redop=base.get("redop", ""),
        root=_root(line, base.get("root", "")),
        out_of_place=out,
        in_place=within,
        algorithm=extra.get("algo", "").lower(),
        protocol=extra.get("proto", "").lower(),
        channels=channels,
        variant=extra.get("variant", ""),
    )


def _half(line: Line, fields: dict[str, str], base: dict[str, str]) -> HalfRow | None:
    """One half (out-of-place or in-place) of a row; None where it was not run."""
    time, algbw, busbw = (_number(line, fields, name) for name in ("time", "algbw", "busbw"))
    if time is None and busbw is None:
        return None
    if time is not None and time.value == 0:
        raise line.error("a time of 0: microseconds above 0 are due here")
    return HalfRow(
        time_us=time, algbw_GBps=algbw, busbw_GBps=busbw, wrong=_wrong(line, fields, base.get("type", ""))
    )


def _wrong(line: Line, fields: dict[str, str], dtype: str) -> int | None:
    """Wrong elements; None where results were not checked. Old builds print the largest error instead."""
    if "error" in fields:
        try:
            error = abs(float(fields["error"]))
        except ValueError:
            if is_missing(fields["error"]):
                return None
            raise line.error(
                f"error is {shown(fields['error'])}: a number such as 1e-07 is due here"
            ) from None
        return int(not error <= _TOLERATED_ERROR.get(dtype, 0.0))
    found = _number(line, fields, "#wrong" if "#wrong" in fields else "wrong")
    return None if found is None else int(found.value)


def _number(line: Line, fields: dict[str, str], name: str) -> Printed | None:
    try:
        return printed(fields.get(name, ""))
    except ValueError as error:
        raise line.error(f"{name}: {error}") from None


def _whole(line: Line, fields: dict[str, str], *names: str) -> int | None:
    for name in names:
        found = _number(line, fields, name)
        if found is not None:
            return int(found.value)
    return None


def _required(line: Line, fields: dict[str, str], name: str) -> int:
    found = _whole(line, fields, name)
    if found is None:
        raise line.error(f"{name} is missing: a number of bytes is due here")
    if found > MOST_BYTES:
        raise line.error(f"{name} is {found:.3g}: a number of bytes is due here")
    return found


def _root(line: Line, text: str) -> int | None:
    """The root rank; -1 and an absent column are None."""
    if is_missing(text) or text.startswith("-"):
        return None
    if not text.isdecimal() or len(text) > 9:
        raise line.error(f"root is {shown(text)}: a rank or -1 is due here")
    return int(text)


def _default_header(fields: int) -> tuple[str, ...]:
    """Columns of today's builds, for excerpts that lack the header."""
    return (*_BASE, *_HALF, *_HALF) if fields > len(_BASE) + len(_HALF) else (*_BASE, *_HALF)


def _average(line: Line, text: str) -> float | None:
    try:
        found = printed(text)
    except ValueError as error:
        raise line.error(f"average bus bandwidth: {error}") from None
    return None if found is None else found.value * 1e9


def _refuse_half_a_row(line: Line) -> None:
    """A line of a table that begins like a row and does not go on like one."""
    fields = line.text.split()
    if not line.ended or (len(fields) > 1 and fields[1].isdecimal()):
        raise line.error(
            f"{shown(line.text)}: half a row: size, count, type, … busbw, #wrong are due: is the log cut off?"
        )
