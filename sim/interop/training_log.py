"""What the log of a training run says, whichever framework printed it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sim.interop.lines import Line, LogError
from sim.interop.pace import Pace, pace_of

_FADED = re.compile(r"\[\d{0,3}(?:;\d{1,3})*m")  # colours whose escape character a viewer swallowed


@dataclass(frozen=True)
class TrainingStep:
    """What one or more ranks printed about one step. ``seconds`` is of one step, also where a line stands for several."""

    place: str  # file:line
    iteration: int
    start: int  # which start of the job it belongs to, from 0
    seconds: float | None
    tokens_per_s_per_gpu: float | None
    tflops: float | None = None
    mfu: float | None = None

    @property
    def duration(self) -> float:
        """Proportional to the time of the step: seconds, or seconds per token and GPU."""
        if self.seconds is not None:
            return self.seconds
        return 1.0 / (self.tokens_per_s_per_gpu or 1.0)

    def slower_of(self, other: TrainingStep) -> TrainingStep:
        """Two ranks' views of one step: it ends with the slower."""
        return other if other.duration > self.duration else self


@dataclass(frozen=True)
class Memory:
    """The largest figure of one kind, bytes: ``allocated``, ``reserved`` or ``device``."""

    kind: str
    peak_bytes: float
    place: str


@dataclass(frozen=True)
class TrainingLog:
    """Steps in the order printed, SI units.

    ``settings`` are what the log says of the run by the framework's own names (an argument dump, a start line);
    ``gpus``, ``global_batch`` and ``sequence_length`` None where it does not. ``peak_flops`` is what its MFU was
    divided by, ``capacity_bytes`` the memory of a GPU.
    """

    path: str
    format: str
    steps: tuple[TrainingStep, ...]
    memory: tuple[Memory, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    global_batch: int | None = None
    sequence_length: int | None = None
    peak_flops: float | None = None
    capacity_bytes: float | None = None
    warnings: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()

    @cached_property
    def pace(self) -> Pace:
        """Steps without warm-up: median, spread, stalls."""
        return pace_of(self.steps)

    @property
    def step_time_s(self) -> float | None:
        """Median seconds of a step after warm-up; None where the log gives a rate and not its batch and GPUs."""
        if self.pace.seconds is not None:
            return self.pace.seconds
        if self.gpus and self.global_batch and self.sequence_length and self.tokens_per_s_per_gpu:
            return self.global_batch * self.sequence_length / (self.tokens_per_s_per_gpu * self.gpus)
        return None

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Median rate after warm-up, as printed."""
        return self.pace.tokens_per_s_per_gpu

    @property
    def peak_memory(self) -> Memory | None:
        """The figure that says most: allocated before reserved before device."""
        order = ("allocated", "reserved", "device")
        return min(self.memory, key=lambda m: order.index(m.kind), default=None)


@dataclass
class StepCollector:
    """Gathers what ranks print: equal iterations of different ranks are one step, a repeated one is a restart."""

    steps: dict[tuple[int, int], TrainingStep] = field(default_factory=dict)
    peaks: dict[str, Memory] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    torn: list[Line] = field(default_factory=list)
    start: int = 0
    _last: dict[str, int] = field(default_factory=dict)

    def add(self, step: TrainingStep, rank: str) -> None:
        """``rank`` is whatever tells printers apart; empty where lines carry no rank: an equal iteration is then
        taken for another rank's."""
        last = self._last.get(rank)
        if last is not None and (step.iteration < last or (rank and step.iteration == last)):
            self.start += 1
            self._last.clear()
        self._last[rank] = step.iteration
        step = replace(step, start=self.start)
        key = (self.start, step.iteration)
        known = self.steps.get(key)
        self.steps[key] = step if known is None else known.slower_of(step)

    def remember(self, kind: str, peak_bytes: float, line: Line) -> None:
        known = self.peaks.get(kind)
        if peak_bytes > 0 and (known is None or peak_bytes > known.peak_bytes):
            self.peaks[kind] = Memory(kind, peak_bytes, line.place)

    def finish(self, path: str, name: str, due: str) -> tuple[TrainingStep, ...]:
        """The steps in order. Raises ``LogError`` where there are none."""
        if not self.steps:
            place = self.torn[0].place if self.torn else f"{path}:1"
            cut = "; the lines of steps that it has are cut off" if self.torn else ""
            raise LogError(
                f"{place}: no training steps found in this {name} log{cut}: lines such as '{due}' are due"
            )
        if self.torn:
            shown = ", ".join(line.place for line in self.torn[:3]) + (", …" if len(self.torn) > 3 else "")
            self.warnings.append(f"{len(self.torn)} line(s) of steps are cut off and left out: {shown}")
        if self.start:
            self.warnings.append(
                f"the run was started {self.start + 1} times: each start has its own warm-up"
            )
        return tuple(self.steps.values())


def uncoloured(lines: Iterable[Line]) -> Iterable[Line]:
    """Lines without the remains of colours."""
    for line in lines:
        yield replace(line, text=_FADED.sub("", line.text).strip()) if "[" in line.text else line


def number(text: str) -> float | None:
    """The first number in ``text`` (``13372.8/13364.7``, ``6,012``, ``346.3 (avg 340.8)``); None without one above 0."""
    match = re.match(r"\s*(\d[\d,]{0,30}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?)", text)
    if match is None:
        return None
    try:
        value = float(match[1].replace(",", ""))
    except ValueError:
        return None
    return value if 0.0 < value < 1e30 else None


def whole(settings: Mapping[str, str], *names: str) -> int | None:
    """The first of ``names`` that is a whole number above zero."""
    for name in names:
        text = settings.get(name, "")
        if text.isdecimal() and len(text) < 12 and int(text) > 0:
            return int(text)
    return None


def only_value(values: Sequence[int]) -> int | None:
    """The value that all agree on."""
    return values[0] if values and len(set(values)) == 1 else None
