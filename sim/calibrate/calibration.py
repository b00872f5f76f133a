"""From logs to a stack profile: what was fitted, how far off predictions were before and are after."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwmodels import catalog
from hwmodels.stack import StackProfile
from sim.calibrate.collectives import collective_accuracy, fit_collectives
from sim.calibrate.errors import CalibrationError
from sim.calibrate.evidence import Evidence, gather
from sim.calibrate.fit import Accuracy, Fitted
from sim.calibrate.gemms import fit_gemms, gemm_accuracy
from sim.calibrate.machine import Machine, machine_of
from sim.calibrate.profile import title, to_yaml, with_figures
from sim.calibrate.runs import fit_runs, run_accuracy
from sim.calibrate.streams import fit_streams, stream_accuracy

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,79}")
KEPT = "kernel_gap and latencies are kept: no log of these formats measures them alone"


@dataclass(frozen=True)
class Calibration:
    """``yaml`` is the file's text; ``profile`` what it holds."""

    name: str
    base: str
    gpu: str
    yaml: str
    profile: StackProfile
    figures: tuple[Fitted, ...]
    accuracy: tuple[Accuracy, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "base": self.base,
            "gpu": self.gpu,
            "figures": [figure.to_dict() for figure in self.figures],
            "errors": [row.to_dict() for row in self.accuracy],
            "notes": list(self.notes),
        }


def calibrate_stack(
    name: str,
    logs: Sequence[str | Path],
    *,
    base: str | None = None,
    node: str | None = None,
    date: str | None = None,
) -> Calibration:
    """A profile called ``name`` that inherits from ``base`` all that ``logs`` do not measure.

    ``base`` and ``node`` may be left out where the logs name their GPU. ``date`` defaults to today.
    Raises ``CalibrationError`` for logs that contradict themselves or one another's machine, and where
    nothing can be fitted.
    """
    day = _checked(name, logs, date)
    evidence = gather(logs)
    machine = machine_of(evidence, node, base)
    fitted = tuple(_fitted(evidence, machine))
    if not fitted:
        raise CalibrationError(
            ["nothing could be fitted:", *(f"  {note}" for note in evidence.notes or [KEPT])]
        )
    inherits = _base_name(machine, base)
    tuned = machine.base.tuned and all(run.tuned for _, run in evidence.runs)
    text = to_yaml(name, day, machine.gpu.name, inherits, tuned, fitted, _formats(evidence))
    after = replace(
        with_figures(machine.base, fitted),
        name=name,
        title=title(fitted, inherits),
        date=day,
        gpus=(machine.gpu.name,),
        inherits=inherits,
        tuned=tuned,
    )
    accuracy = tuple(_accuracy(evidence, machine, after))
    return Calibration(
        name,
        inherits,
        machine.gpu.name,
        text,
        after,
        fitted,
        accuracy,
        (*dict.fromkeys(evidence.notes), KEPT),
    )


def _fitted(evidence: Evidence, machine: Machine) -> Iterator[Fitted]:
    """Streams first: whether a GEMM is bound by HBM depends on them. Runs last: they see all the others."""
    found: list[Fitted] = [*fit_streams(evidence, machine.gpu, machine.base)]
    found += fit_gemms(evidence, machine.gpu, with_figures(machine.base, found))
    if machine.node is not None:
        found += fit_collectives(evidence, machine.node, with_figures(machine.base, found))
    keys = frozenset(figure.key for figure in found)
    found += fit_runs(evidence, machine.gpu, with_figures(machine.base, found), keys)
    yield from found


def _accuracy(evidence: Evidence, machine: Machine, after: StackProfile) -> Iterator[Accuracy]:
    gpu, before = machine.gpu, machine.base
    yield from stream_accuracy(evidence, gpu, before, after)
    yield from gemm_accuracy(evidence, gpu, before, after)
    if machine.node is not None:
        yield from collective_accuracy(evidence, machine.node, before, after)
    yield from run_accuracy(evidence, gpu, before, after)


def _formats(evidence: Evidence) -> dict[str, str]:
    formats: dict[str, str] = {}
    for log in (*evidence.gemms, *evidence.streams, *evidence.copies):
        formats[log.path] = f"{log.format} log"
    formats |= {path: "rccl-tests log" for path, _ in evidence.collectives}
    return formats | {path: "training runs" for path, _ in evidence.runs}


def _base_name(machine: Machine, base: str | None) -> str:
    """What ``inherits`` says: a file by its absolute path, so that the profile may lie anywhere."""
    if base is not None and catalog.is_stack_file(base):
        return str(Path(base).resolve())
    return machine.base.name


def _checked(name: str, logs: Sequence[str | Path], date: str | None) -> str:
    """The date of the profile, once name and date are found to be valid."""
    if not logs:
        raise CalibrationError(["no logs: give at least one with --from"])
    if not _NAME.fullmatch(name):
        raise CalibrationError(
            [
                f"name {name[:80]!r}: lower-case letters, digits, dots and hyphens are due, like my-cluster-2026-mi300x"
            ]
        )
    if name in catalog.names("stack"):
        raise CalibrationError([f"name {name!r} is a stack of the catalog: give this one another name"])
    try:
        return (
            datetime.datetime.now(tz=datetime.UTC).date()
            if date is None
            else datetime.date.fromisoformat(date)
        ).isoformat()
    except ValueError:
        raise CalibrationError([f"date {str(date)[:40]!r}: a day like 2026-11-30 is due"]) from None
