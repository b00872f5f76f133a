"""Clock and power of a GPU while it works, from amd-smi or nvidia-smi where one is installed; never required."""

from __future__ import annotations

import csv
import re
import shutil
import statistics
import subprocess
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from sim.measure.device import Device

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Reading:
    """One look at a GPU; None where the tool printed no number."""

    clock_MHz: float | None
    power_W: float | None


def amd_reading(text: str) -> Reading:
    """First GPU of ``amd-smi metric -p -c --csv``. Its clock is the median over the compute dies."""
    row = next(csv.DictReader(_table(text)), {})
    named = (text for name, text in row.items() if re.fullmatch(r"gfx_\d+_clk", name or ""))
    clocks = [clock for clock in map(_number, named) if clock is not None]
    return Reading(statistics.median(clocks) if clocks else None, _number(row.get("socket_power")))


def nvidia_reading(text: str) -> Reading:
    """``nvidia-smi --query-gpu=clocks.sm,power.draw --format=csv,noheader,nounits``."""
    fields = text.strip().splitlines()[0].split(",") if text.strip() else []
    clock, power = (*fields, "", "")[:2]
    return Reading(_number(clock), _number(power))


def _table(text: str) -> list[str]:
    """amd-smi may say something before its header."""
    lines = text.splitlines()
    header = next((i for i, line in enumerate(lines) if "gpu" in line.split(",")), len(lines))
    return lines[header:]


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def tool_of(device: Device) -> str | None:
    """Path of the tool that can watch ``device``, if it is installed and the GPU's address known."""
    import torch

    if device.bus_id is None:
        return None
    return shutil.which("amd-smi" if torch.version.hip else "nvidia-smi")


def ask(tool: str, bus_id: str) -> Reading | None:
    """One reading, or None: a tool that fails costs a figure, not the measurement."""
    amd = tool.endswith("amd-smi")
    query = (
        ("metric", "-p", "-c", "-g", bus_id, "--csv")
        if amd
        else ("--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-i", bus_id)
    )
    text = output((tool, *query))
    if text is None:
        return None
    return amd_reading(text) if amd else nvidia_reading(text)


def output(command: tuple[str, ...]) -> str | None:
    """What ``command`` prints, or None when it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@dataclass
class Watch:
    """Reads in the background while its block runs; ``median`` sums up what it saw."""

    device: Device
    readings: list[Reading] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._tool = tool_of(self.device)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        if self._tool is None or self.device.bus_id is None:
            return
        while not self._over.wait(0.1):
            reading = ask(self._tool, self.device.bus_id)
            if reading is not None and not self._over.is_set():  # one that outlasts the work saw it idle
                self.readings.append(reading)

    @property
    def median(self) -> Reading:
        clocks = [r.clock_MHz for r in self.readings if r.clock_MHz is not None]
        powers = [r.power_W for r in self.readings if r.power_W is not None]
        return Reading(
            statistics.median(clocks) if clocks else None, statistics.median(powers) if powers else None
        )
