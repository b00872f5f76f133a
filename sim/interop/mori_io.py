"""MORI-IO's table of RDMA transfers by message size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sim.interop.lines import Line, error_at
from sim.interop.printed import Printed, printed

FORMAT = "mori-io"
_COLUMNS = 7


@dataclass(frozen=True)
class TransferRow:
    """``batch`` messages of ``size_bytes`` in flight together."""

    line: int
    size_bytes: int
    batch: int
    max_Bps: float
    average_Bps: float
    min_latency_s: float
    average_latency_s: float


@dataclass(frozen=True)
class MoriIoLog:
    path: str
    rows: tuple[TransferRow, ...]
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    format: str = FORMAT


def recognises(text: str) -> bool:
    return "MsgSize (B)" in text


def read(path: str, lines: Iterable[Line]) -> MoriIoLog:
    """Raises ``LogError`` for a row cut off and for a header without rows."""
    rows: list[TransferRow] = []
    header: Line | None = None
    for line in lines:
        if recognises(line.text):
            header = line
        elif header is not None and line.text.startswith("|"):
            cells = [cell.strip() for cell in line.text.strip("|").split("|")]
            if cells[0][:1].isdigit():
                rows.append(_row(line, cells))
    if not rows:
        raise error_at(
            header, path, "a header without rows: did the run finish? A row per message size is due below it"
        )
    return MoriIoLog(path, tuple(rows))


def _row(line: Line, cells: list[str]) -> TransferRow:
    if len(cells) != _COLUMNS or not line.text.endswith("|"):
        raise line.error(f"a row of {len(cells)} cells, {_COLUMNS} are due: is the log cut off?")
    numbers: list[Printed] = []
    for cell in cells:
        try:
            found = printed(cell)
        except ValueError as error:
            raise line.error(str(error)) from None
        if found is None:
            raise line.error("a row with an empty cell: a number is due in each")
        numbers.append(found)
    size, batch, _, most, average, least_us, average_us = (number.value for number in numbers)
    return TransferRow(
        line.number, int(size), int(batch), most * 1e9, average * 1e9, least_us * 1e-6, average_us * 1e-6
    )
