"""CSV of ``amd-smi metric`` and ``nvidia-smi --query-gpu``: power, clocks, activity, energy over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sim.interop.columns import Row, names_of, row_of
from sim.interop.lines import Line, error_at

FORMAT = "amd-smi"
_POWER = ("socket_power", "current_socket_power", "power.draw [W]")


@dataclass(frozen=True)
class SmiRow:
    """One GPU at one moment; None where the tool printed N/A or was not asked."""

    line: int
    gpu: int
    timestamp: str
    power_W: float | None
    clock_Hz: float | None
    memory_clock_Hz: float | None
    activity: float | None  # fraction of the time
    memory_activity: float | None
    hotspot_C: float | None
    energy_J: float | None


@dataclass(frozen=True)
class SmiLog:
    path: str
    rows: tuple[SmiRow, ...]
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    format: str = FORMAT


def recognises(text: str) -> bool:
    names = set(names_of(text))
    return ("gpu" in names and bool(names & {*_POWER, "gfx_0_clk"})) or {"index", "power.draw [W]"} <= names


def read(path: str, lines: Iterable[Line]) -> SmiLog:
    """Headers may follow one another. Raises ``LogError`` for a row cut off and for a log without rows."""
    rows: list[SmiRow] = []
    header: tuple[str, ...] = ()
    at: Line | None = None
    for line in lines:
        if recognises(line.text) or line.text.startswith("timestamp"):
            header, at = names_of(line.text), line
        elif header and not line.text.startswith("#"):
            rows.append(_row(row_of(line, header)))
    if not rows:
        raise error_at(at, path, "a header without rows: a row per GPU and second is due below it")
    return SmiLog(path, tuple(rows))


def _row(row: Row) -> SmiRow:
    gpu = row.value("gpu", "index")
    if gpu is None:
        raise row.line.error("gpu is missing: its number is due here")
    return SmiRow(
        line=row.line.number,
        gpu=int(gpu),
        timestamp=row.text("timestamp"),
        power_W=_watts(row),
        clock_Hz=row.value("gfx_0_clk", "clocks.sm [MHz]", scale=1e6),
        memory_clock_Hz=row.value("mem_0_clk", "clocks.mem [MHz]", scale=1e6),
        activity=row.value("gfx_activity", "utilization.gpu [%]", scale=1e-2),
        memory_activity=row.value("umc_activity", "utilization.memory [%]", scale=1e-2),
        hotspot_C=row.value("hotspot", "temperature.gpu"),
        energy_J=row.value("total_energy_consumption"),
    )


def _watts(row: Row) -> float | None:
    """nvidia-smi repeats the unit in the row unless told not to."""
    fields = {name: row.fields.get(name, "").removesuffix("W").strip() for name in _POWER}
    return Row(row.line, fields).value(*_POWER)
