"""The nouns that leave the simulator: frozen, plain, with ``to_dict()`` and ``to_frame()``.

Imports nothing of the project, so that every view, test and export can depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = ("fits", "at risk", "does not fit")  # from best to worst
CAUSES_TOLERANCE = 1e-9  # relative: causes sum to the step
PARTS_TOLERANCE = 1e-6  # relative: memory parts sum to what is allocated


class Record(NamedTuple):
    """One slice of time on one stream: the row type of every breakdown, timeline, trace and roofline.

    ``role`` is the pipeline stage, ``rank`` the global rank that stands for it. ``start_s`` and ``end_s``
    count from the start of the step. ``bytes`` are those moved over HBM or sent over a link, by kind.
    """

    role: int
    rank: int
    stream: str
    task: str
    kind: str
    cause: str
    start_s: float
    end_s: float
    bytes: float
    flops: float


class MemoryRecord(NamedTuple):
    """What one rank of a stage has allocated in one stretch of time, at most: a row of memory over time.

    ``rank`` is the first of the stage, all are alike; times count from the start of the step. ``moment`` says
    what stands out in it. ``lasting_bytes`` are states and buffers that stay; they, ``activations_bytes``,
    ``gathered_bytes`` (parameters), ``reduction_bytes`` (gradients on their way) and ``transient_bytes`` sum to
    ``allocated_bytes``.
    """

    stage: int
    rank: int
    start_s: float
    end_s: float
    task: str
    moment: str
    allocated_bytes: float
    lasting_bytes: float
    activations_bytes: float
    gathered_bytes: float
    reduction_bytes: float
    transient_bytes: float


Row = TypeVar("Row", bound=NamedTuple)


class RecordTable(Sequence[Row]):
    """Records that are made when somebody first looks: most questions need none, and there may be millions."""

    def __init__(self, make: Callable[[], tuple[Row, ...]]) -> None:
        self._make = make

    @cached_property
    def _rows(self) -> tuple[Row, ...]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._rows)

    def __reduce__(self) -> tuple[type[tuple[Row, ...]], tuple[tuple[Row, ...]]]:
        """Travels to other processes as the rows themselves."""
        return tuple, (self._rows,)


@dataclass(frozen=True)
class Source:
    """Where one figure that this result rests on comes from."""

    entry: str  # catalog entry, e.g. "gpu mi325x"
    figure: str  # field of that entry, e.g. "hbm_bandwidth"
    title: str
    url: str
    confidence: str  # high | medium | low | derived | assumed

    def to_dict(self) -> dict[str, str]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class StageMemory:
    """HBM of the fullest rank of one pipeline stage, at the moment of its peak, in bytes.

    ``allocated_bytes`` is what tensors hold. ``reserved_bytes`` adds the allocator's slack and
    ``device_bytes`` the context and communicators too; both are ranges, low and high.

    Raises ``ValueError`` for an unknown verdict and for parts that do not sum to ``allocated_bytes``.
    """

    stage: int
    rank: int
    verdict: str  # fits | at risk | does not fit
    allocated_bytes: float
    reserved_bytes: tuple[float, float]
    device_bytes: tuple[float, float]
    parts_bytes: Mapping[str, float]
    peak_name: str  # when the peak happens, in words
    capacity_bytes: float

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"memory verdict {self.verdict!r}; known: {', '.join(VERDICTS)}")
        parts = math.fsum(self.parts_bytes.values())
        if not math.isclose(parts, self.allocated_bytes, rel_tol=PARTS_TOLERANCE):
            raise ValueError(
                f"stage {self.stage}: memory parts sum to {parts:.6g} B, allocated is {self.allocated_bytes:.6g} B"
            )

    def to_dict(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["reserved_bytes"] = list(self.reserved_bytes)
        plain["device_bytes"] = list(self.device_bytes)
        plain["parts_bytes"] = dict(self.parts_bytes)
        return plain


@dataclass(frozen=True)
class PredictionRange:
    """Where nine of ten measured step times should lie, judged by published runs, in seconds.

    ``kind`` says how much is known of such a case, ``basis`` what the range comes from, ``outside`` what about the
    case no published run has: there the range itself is a guess.
    """

    low_s: float
    high_s: float
    kind: str  # same stack | new scale | new model | new plan | new precision | new stack | new GPU | untuned stack
    basis: str
    outside: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "step_time_s": [self.low_s, self.high_s],
            "kind": self.kind,
            "basis": self.basis,
            "outside": list(self.outside),
        }


@dataclass(frozen=True)
class Gain:
    """Seconds per step that one change would save, on average over the trials, with its standard error."""

    what: str
    seconds: float
    standard_error_s: float

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class StepSpread:
    """Steps of one job that differ by chance: what the scenario's ``variability`` makes of the step time, in seconds.

    ``nominal_s`` is the step with all devices alike. ``percentiles_s`` has the keys p05, p50, p95, p99.
    """

    trials: int
    nominal_s: float
    mean_s: float
    standard_error_s: float
    percentiles_s: Mapping[str, float]
    decider: str  # the rank that decides, in words
    gains: tuple[Gain, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        gains = [gain.to_dict() for gain in self.gains]
        return plain | {"percentiles_s": dict(self.percentiles_s), "gains": gains}


@dataclass(frozen=True)
class StepResult:
    """One training step of one scenario: seconds by cause, memory by stage, and what it all rests on.

    Raises ``ValueError`` when ``breakdown_s`` does not sum to ``step_time_s`` (relative 1e-9), holds a
    negative time, when there is no stage, or when ``range_90`` does not hold ``step_time_s``.
    """

    scenario_name: str
    scenario_hash: str
    version: str
    gpu: str
    stack: str
    stack_date: str
    model_title: str
    gpus: int
    layout: Mapping[str, Any]  # tp, cp, pp, dp, micro_batch, microbatches, data_sharding, schedule, ...
    step_time_s: float
    tokens_per_step: float
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    tflops_per_gpu: float  # model FLOPs, in the convention of the MFU
    mfu: float  # fraction of mfu_peak_flops
    mfu_convention: str  # megatron | palm
    mfu_peak_flops: float  # FLOP/s of one GPU
    mfu_peak_name: str  # e.g. "dense bf16 peak of MI325X"
    breakdown_s: Mapping[str, float]  # by cause; sums to step_time_s
    hidden_s: Mapping[str, float]  # communication that ran under compute; not part of the step
    memory: tuple[StageMemory, ...]
    bottleneck: str
    records: Sequence[Record] = field(default=(), repr=False)
    memory_records: Sequence[MemoryRecord] = field(default=(), repr=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    range_90: PredictionRange | None = None  # None where no published run says anything
    spread: StepSpread | None = None  # None where the scenario says nothing of variability
    counted: str = "tokens"  # what the fields called tokens count: tokens, or samples of a recommender

    def __post_init__(self) -> None:
        total = math.fsum(self.breakdown_s.values())
        if not math.isclose(total, self.step_time_s, rel_tol=CAUSES_TOLERANCE):
            raise ValueError(f"causes sum to {total!r} s, the step takes {self.step_time_s!r} s")
        for part, seconds in (*self.breakdown_s.items(), *self.hidden_s.items()):
            if not seconds >= 0.0:
                raise ValueError(f"cause {part!r} has {seconds!r} s")
        if not self.memory:
            raise ValueError("a result needs the memory of at least one stage")
        if self.range_90 is not None and not self.range_90.low_s <= self.step_time_s <= self.range_90.high_s:
            raise ValueError(f"the step takes {self.step_time_s!r} s, outside its own range {self.range_90}")

    @property
    def step_time_range_s(self) -> tuple[float, float] | None:
        """Low and high of the 90 % range of ``step_time_s``; None where no published run says anything."""
        return None if self.range_90 is None else (self.range_90.low_s, self.range_90.high_s)

    @property
    def worst_memory(self) -> StageMemory:
        """The stage nearest to (or furthest beyond) what its GPU holds; the first one of equals."""
        return max(self.memory, key=lambda m: (VERDICTS.index(m.verdict), m.device_bytes[1], -m.stage))

    @property
    def fits(self) -> bool:
        """False only when some rank surely does not fit."""
        return self.worst_memory.verdict != "does not fit"

    def memory_over_time(self, stage: int | None = None) -> tuple[MemoryRecord, ...]:
        """Allocated bytes of every stage (or one) from the start of the step to its end, without gaps."""
        return tuple(row for row in self.memory_records if stage in (None, row.stage))

    def memory_peak(self, stage: int) -> MemoryRecord | None:
        """The first stretch of time in which ``stage`` holds the most; None where no time was recorded."""
        rows = self.memory_over_time(stage)
        return max(rows, key=lambda row: row.allocated_bytes) if rows else None

    def to_dict(self) -> dict[str, Any]:
        """The documented keys of ``sim run --json``: JSON types only, records left out."""
        plain = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("records", "memory_records")
        }
        return plain | {
            "layout": dict(self.layout),
            "breakdown_s": dict(self.breakdown_s),
            "hidden_s": dict(self.hidden_s),
            "memory": self.worst_memory.to_dict(),
            "stages": [stage.to_dict() for stage in self.memory],
            "sources": [source.to_dict() for source in self.sources],
            "assumed": list(self.assumed),
            "warnings": list(self.warnings),
            "range_90": None if self.range_90 is None else self.range_90.to_dict(),
            "spread": None if self.spread is None else self.spread.to_dict(),
        }

    def to_frame(self) -> pd.DataFrame:
        """The record table as a pandas frame, one row per record.

        Raises ``ImportError`` naming the extra to install when pandas is missing.
        """
        try:
            import pandas as pd
        except ImportError as missing:
            raise ImportError("to_frame() needs pandas: pip install 'trainsim[app]'") from missing
        return pd.DataFrame(list(self.records), columns=list(Record._fields))
