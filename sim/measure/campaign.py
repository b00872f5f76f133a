"""``sim measure`` from end to end: which kinds, in which order, into which files."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.measure.errors import MeasurementError, one_line, require_torch

if TYPE_CHECKING:
    from sim.measure.device import Device
    from sim.measure.ranks import Rank
    from sim.measure.stopwatch import Stopwatch
    from sim.program import Program
    from sim.scenario import Scenario

KINDS = ("gemm", "attention", "stream", "collectives")
ALL = "all"

SECONDS, QUICK_SECONDS = 1.0, 0.1  # of one measured point; the clock of a GPU settles within the first


def to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")


def measure_machine(
    what: str,
    folder: Path,
    *,
    scenario: Scenario | None = None,
    device: str | None = None,
    seconds: float | None = None,
    quick: bool = False,
    say: Callable[[str], None] = to_stderr,
) -> tuple[Path, ...]:
    """Measures ``what`` (gemm, attention, stream, collectives or all) and returns the files written into ``folder``.

    ``scenario`` adds the shapes of its ranks to the standard ones. ``device`` is cuda (ROCm too; the default) or
    cpu. ``seconds`` are those of one point (default 1, ``quick`` 0.1); ``say`` hears of each and must be a function
    of a module. Under torchrun every rank calls this; all but the first write nothing and return ().

    Raises TorchMissing, MeasurementError.
    """
    wanted = kinds_of(what)
    if seconds is not None and not 0 < seconds < 3600:
        raise MeasurementError(f"--seconds {seconds:g}: give the time of one point, above 0 and below 3600")
    require_torch()
    from sim.measure.device import Device, choose_kind
    from sim.measure.ranks import launched

    kind, rank = choose_kind(device), launched()
    campaign = Campaign(
        folder=folder,
        device=Device(kind, rank.local if rank and kind == "cuda" else 0),
        rank=rank,
        seconds=seconds or (QUICK_SECONDS if quick else SECONDS),
        quick=quick,
        scenario=scenario,
        say=say,
    )
    try:
        return campaign.run(wanted)
    except RuntimeError as error:  # torch's own: out of memory, a peer that left, a driver that does not fit
        raise MeasurementError(f"torch could not do it: {one_line(error)}") from error


def kinds_of(what: str) -> tuple[str, ...]:
    """Raises MeasurementError for an unknown word, naming the nearest."""
    if what == ALL:
        return KINDS
    if what in KINDS:
        return (what,)
    if what.endswith((".yaml", ".yml")):
        raise MeasurementError(f"{what}: say first what to measure, as in `sim measure all {what} -o DIR`")
    near = difflib.get_close_matches(what, (*KINDS, ALL), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise MeasurementError(f"no measurement {what!r}; {hint}known: {', '.join((*KINDS, ALL))}")


@dataclass
class Campaign:
    """One visit to one machine. ``rank`` is this process's place when a launcher started several."""

    folder: Path
    device: Device
    rank: Rank | None
    seconds: float
    quick: bool
    scenario: Scenario | None
    say: Callable[[str], None]
    files: list[Path] = field(default_factory=list)

    def run(self, kinds: tuple[str, ...]) -> tuple[Path, ...]:
        """Collectives come first: there all ranks are at work; then all but the first may leave."""
        from sim.measure.provenance import FILE, describe_machine, record, refuse_another_machine, state

        self.device.claim()
        leads = self.rank is None or self.rank.leads
        machine = describe_machine(self.device)
        if leads:
            self.folder.mkdir(parents=True, exist_ok=True)
            refuse_another_machine(self.folder, machine)
        if "collectives" in kinds and self._has_ranks(required=len(kinds) == 1):
            at_start = state(self.device)
            facts = self._collectives()
            if leads:
                record(self.folder, machine, {"collectives": self._common(at_start, facts)})
        if not leads:
            return ()
        kernels = {"gemm": self._gemm, "attention": self._attention, "stream": self._stream}
        for kind in (kind for kind in kinds if kind in kernels):
            at_start = state(self.device)
            record(self.folder, machine, {kind: self._common(at_start, kernels[kind]())})
        return (*self.files, self.folder / FILE)

    def _gemm(self) -> dict[str, Any]:
        from sim.measure.gemm import measure_gemms
        from sim.measure.gemm_shapes import scenario_shapes, sweep
        from sim.measure.hipblaslt_log import hipblaslt_csv

        asked = () if self._program is None else scenario_shapes(self._program)
        shapes = (*asked, *sweep(quick=self.quick, small=not self.device.on_gpu))
        timings, skipped = measure_gemms(shapes, self.device, self._stopwatch, self.say)
        if not timings:
            raise MeasurementError(_nothing("gemm", skipped))
        fp8_type = "f8_fnuz_r" if str(self.device.fp8).endswith("fnuz") else "f8_r"
        text = hipblaslt_csv(timings, fp8_type=fp8_type, gpu_timer=self.device.on_gpu)
        return {
            "files": [self._write("gemm.csv", text)],
            "data": "standard normal; 8-bit operands rounded from it, scaled by 1",
            "rotating_bytes": self.device.rotating_bytes,
            "skipped": skipped,
        }

    def _attention(self) -> dict[str, Any]:
        from sim.measure.attention import attention_csv, measure_attention, scenario_attention, sweep

        asked = () if self._program is None else scenario_attention(self._program)
        ops = (*asked, *sweep(quick=self.quick, small=not self.device.on_gpu))
        timings, skipped = measure_attention(ops, self.device, self._stopwatch, self.say)
        if not timings:
            raise MeasurementError(_nothing("attention", skipped))
        return {
            "files": [self._write("attention.csv", attention_csv(timings, self.device.name))],
            "data": "standard normal, bf16",
            "rotating_bytes": self.device.rotating_bytes,
            "skipped": skipped,
        }

    def _stream(self) -> dict[str, Any]:
        from sim.measure import streams
        from sim.measure.babelstream_log import babelstream_table

        size = streams.array_bytes(self.device, quick=self.quick)
        timings = []
        for kernels in (streams.babelstream_kernels, streams.training_kernels):
            # One suite after the other: their arrays need not be there together.
            timings += streams.measure_streams(kernels(self.device, size), self._stopwatch, self.say)
        table = babelstream_table(timings, implementation=_torch_release(), array_bytes=size)
        return {
            "files": [self._write("babelstream.txt", table)],
            "data": "standard normal",
            "array_bytes": size,
        }

    def _has_ranks(self, *, required: bool) -> bool:
        """``all`` on a machine with one GPU leaves collectives out and says so. Raises MeasurementError."""
        ranks = self._ranks
        if ranks > 1:
            return True
        reason = (
            f"collectives need at least two ranks, here is {ranks}; several nodes: start it with torchrun"
        )
        if required:
            raise MeasurementError(reason)
        self.say(f"collectives left out: {reason}")
        return False

    @property
    def _ranks(self) -> int:
        from sim.measure.ranks import ranks_here

        return ranks_here(self.device.kind) if self.rank is None else self.rank.world

    def _collectives(self) -> dict[str, Any]:
        from sim.measure.collectives import CollectiveJob, backend_of, file_of
        from sim.measure.exchanges import KINDS as COLLECTIVES
        from sim.measure.ranks import spawn

        job = CollectiveJob(self.folder, self.device.kind, self.seconds, self.quick, self.say)
        if self.rank is None:
            spawn(job, self._ranks)
        else:
            job(self.rank)
        names = [file_of(kind) for kind in COLLECTIVES]
        self.files += [self.folder / name for name in names]
        return {
            "files": names,
            "ranks": self._ranks,
            "backend": backend_of(self.device.kind),
            "environment": _library_settings(os.environ),
        }

    def _common(self, at_start: dict[str, float | None], facts: dict[str, Any]) -> dict[str, Any]:
        return {
            "scenario": None if self.scenario is None else self.scenario.name,
            "seconds_per_point": self.seconds,
            "quick": self.quick,
            "at_start": at_start,
            **facts,
        }

    @cached_property
    def _program(self) -> Program | None:
        from sim.step import Step

        return None if self.scenario is None else Step(self.scenario).program

    @cached_property
    def _stopwatch(self) -> Stopwatch:
        from sim.measure.stopwatch import Stopwatch, clock_of

        return Stopwatch(clock_of(self.device), self.seconds)

    def _write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        self.files.append(path)
        return name


def _library_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What steers RCCL and NCCL: numbers and words that choose algorithms. Values that name hosts or files stay out."""
    chosen = ("ALGO", "PROTO", "CHANNELS", "BUFFSIZE", "NTHREADS", "QPS_PER", "P2P", "NET_GDR", "PXN")
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(("NCCL_", "RCCL_")) and any(word in name for word in chosen) and "FILE" not in name
    }


def _nothing(kind: str, skipped: dict[str, str]) -> str:
    name, reason = next(iter(skipped.items()))
    return f"{kind}: none of {len(skipped)} shapes could be measured; the first, {name}: {reason}"


def _torch_release() -> str:
    import torch

    return f"torch {torch.__version__}"
