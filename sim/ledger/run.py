"""The nouns of a ledger file: where runs come from, what was measured, what was set aside."""

from __future__ import annotations

from dataclasses import dataclass

from sim.scenario.yaml_document import Block

SPLITS = ("fit", "check")
MEMORY_KINDS = ("allocated", "reserved", "device")
TIME_METRICS = ("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")


@dataclass(frozen=True)
class Source:
    """Where a measurement was published. ``where`` is the place inside the source."""

    title: str = ""
    url: str = ""
    where: str = ""
    date: str = ""
    license: str = ""


@dataclass(frozen=True)
class Measured:
    """What the source reports. Bytes are bytes; ``allocated_bytes_by_stage`` is the fullest rank of each stage."""

    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    samples_per_s: float | None = None
    peak_memory_bytes: float | None = None
    memory_kind: str | None = None  # allocated | reserved | device
    allocated_bytes_by_stage: tuple[float, ...] = ()
    goodput: float | None = None

    @property
    def metric(self) -> str:
        """The figure that a prediction is held against: the first time metric given, else memory, else goodput."""
        for name in (*TIME_METRICS, "peak_memory_bytes", "goodput"):
            if getattr(self, name) is not None:
                return name
        return "allocated_bytes_by_stage"

    @property
    def value(self) -> float:
        """The measured figure in the unit of ``metric``."""
        if self.metric == "allocated_bytes_by_stage":
            return max(self.allocated_bytes_by_stage)
        return float(getattr(self, self.metric))

    def step_time(self, global_batch: int, tokens_per_step: float, gpus: int) -> float | None:
        """Seconds per step from whichever time metric is given; None when only memory or goodput was measured."""
        if self.step_time_s is not None:
            return self.step_time_s
        if self.tokens_per_s_per_gpu is not None:
            return tokens_per_step / (self.tokens_per_s_per_gpu * gpus)
        if self.samples_per_s is not None:
            return global_batch / self.samples_per_s
        return None


@dataclass(frozen=True)
class MeasuredRun:
    """One published run. ``document`` is its scenario as written, merged onto the one of its file.

    ``tuned`` is False only with ``untuned_evidence``: words of the source that show a setting known to be slow.
    ``assumed`` lists what the source leaves open and the ledger filled in. ``known_reason`` is the physical cause
    of a large miss, where one is known.
    """

    id: str
    split: str  # fit | check
    document: Block
    measured: Measured
    source: Source
    location: str  # file:line of the run
    confidence: str = ""
    tuned: bool = True
    untuned_evidence: str = ""
    assumed: tuple[str, ...] = ()
    note: str = ""
    known_reason: str = ""
    reference: str = ""


@dataclass(frozen=True)
class SetAside:
    """A published run that is not scored, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class LedgerFile:
    """One file of ``validation/measured/``: the runs of one source."""

    path: str
    source: Source
    runs: tuple[MeasuredRun, ...]
    set_aside: tuple[SetAside, ...] = ()
    out_of_scope: str = ""
