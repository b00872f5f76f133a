"""A scenario changed as a mechanism says: words in braces are computed from the scenario, refused changes are none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sim.diagnosis.signs import signs
from sim.scenario import loads, to_yaml
from sim.step import Step

_WORD = re.compile(r"\{([a-z_]+)\}")
_SHARE = re.compile(r"cluster\.degraded\.(compute|gemm|attention|memory|scale_up|scale_out)=([0-9.e-]+)")
_SLOWEST, _CLOSE, _TRIES = 0.02, 0.005, 14
_WIDER = {"mxfp4": "mxfp8", "nvfp4": "fp8", "mxfp8": "bf16", "fp8": "bf16", "bf16": "fp32", "fp16": "fp32"}
_NARROWER = {"fp32": "bf16", "bf16": "fp8", "fp16": "fp8", "fp8": "mxfp4", "mxfp8": "mxfp4"}


@dataclass(frozen=True)
class Variant:
    """The step of a changed scenario. ``changes`` are its overrides, as ``sim run --set`` takes them."""

    changes: tuple[str, ...]
    step: Step

    @property
    def seconds_per_sequence(self) -> float:
        """Comparable also where the change is one of batch."""
        return self.step.result.step_time_s / self.step.scenario.training.global_batch


def variant(step: Step, changes: Sequence[str]) -> Variant | None:
    """``step`` with ``changes``; None where they do not apply, are refused, or leave the scenario as it is."""
    filled = tuple(filled for change in changes if (filled := _filled(change, step)) is not None)
    if len(filled) < len(changes):
        return None
    text = to_yaml(step.scenario)
    try:
        changed = loads(text, filled, source="scenario")
        if changed == step.scenario:
            return None
        found = Variant(filled, Step(changed))
        _ = found.step.result
    except ValueError:  # a rule forbids it, or the machine has no figure for it
        return None
    return found


def _filled(change: str, step: Step) -> str | None:
    """``change`` with its words computed; None where one has no meaning here. Shares are of what the scenario has."""
    word = _WORD.search(change)
    if word is not None:
        value = _WORDS[word[1]](step)
        if value is None:
            return None
        change = change.replace(word[0], value)
    share, degraded = _SHARE.fullmatch(change), step.scenario.cluster.degraded
    if share is None or degraded is None:
        return change
    return f"cluster.degraded.{share[1]}={float(share[2]) * getattr(degraded, share[1]):.6g}"


def slowed_to(step: Step, step_time_s: float) -> Step:
    """``step`` with kernels slowed until it takes ``step_time_s``, so that changes add to a run as slow as that.

    The same share for everything a GPU computes; links and host stay. ``step`` itself where it is slower already, or
    where kernels alone cannot make it so slow.
    """
    low, high = _SLOWEST, 1.0  # the share lies between
    if step.result.step_time_s >= step_time_s * (1.0 - _CLOSE) or not (slow := _slowed(step, low)):
        return step
    if slow.result.step_time_s < step_time_s:
        return step
    found = step
    for _ in range(_TRIES):
        share = math.sqrt(low * high)
        found = _slowed(step, share) or step
        seconds = found.result.step_time_s
        if abs(seconds / step_time_s - 1.0) < _CLOSE:
            break
        low, high = (share, high) if seconds > step_time_s else (low, share)
    return found


def _slowed(step: Step, share: float) -> Step | None:
    found = variant(step, [f"cluster.degraded.{kind}={share:.6f}" for kind in ("compute", "memory")])
    return None if found is None else found.step


def _share_of_overhead(share: float) -> Callable[[Step], str | None]:
    return lambda step: f"{share * step.result.step_time_s!r} s"


def _tcp(step: Step, end: int) -> str | None:
    """TCP's bandwidth per node over what the NICs of a node carry."""
    node = step.cluster.node
    return _share(signs().tcp_bus_bandwidth_Bps[end], node.nics * node.nic.usable_bandwidth_Bps)


def _pcie(step: Step, end: int) -> str | None:
    return _share(signs().pcie_bus_bandwidth_Bps[end], _domain_bus_Bps(step))


def _domain_bus_Bps(step: Step) -> float:
    """Bus bandwidth of the scale-up domain for large messages."""
    model, ranks = step.cluster.collectives, min(step.scenario.gpus, step.cluster.domain_gpus)
    size = 2.0**34
    return (
        0.0 if ranks < 2 else size / model.seconds("all_reduce", size, ranks, ranks) * 2 * (ranks - 1) / ranks
    )


def _share(slow: float, normal: float) -> str | None:
    return f"{slow / normal:.6f}" if normal > slow and slow / normal >= 1e-6 else None


def _nics_less_one(step: Step) -> str | None:
    nics = step.cluster.node.nics
    return str(nics - 1) if nics > 1 else None


def _micro_batch(step: Step, *, least: bool) -> str | None:
    size = step.scenario.training.micro_batch
    if size == 1 or (size % 2 and not least):
        return None
    return "1" if least else str(size // 2)


def _batch(step: Step, *, least: bool) -> str | None:
    scenario = step.scenario
    count, unit = scenario.microbatches, scenario.training.micro_batch * scenario.dp
    smallest = max(1, scenario.parallelism.pp)
    if count <= smallest or (not least and count // 2 <= smallest):
        return None
    return str(unit * (smallest if least else count // 2))


def _format(table: Mapping[str, str]) -> Callable[[Step], str | None]:
    return lambda step: table.get(step.scenario.training.precision)


_WORDS: Mapping[str, Callable[[Step], str | None]] = {
    "a_fiftieth_of_the_step": _share_of_overhead(0.02),
    "a_tenth_of_the_step": _share_of_overhead(0.1),
    "a_fifth_of_the_step": _share_of_overhead(0.2),
    "the_whole_step": _share_of_overhead(1.0),
    "tcp_low": lambda step: _tcp(step, 0),
    "tcp_high": lambda step: _tcp(step, 1),
    "pcie_low": lambda step: _pcie(step, 0),
    "pcie_high": lambda step: _pcie(step, 1),
    "nics_less_one": _nics_less_one,
    "half_micro_batch": lambda step: _micro_batch(step, least=False),
    "least_micro_batch": lambda step: _micro_batch(step, least=True),
    "half_batch": lambda step: _batch(step, least=False),
    "least_batch": lambda step: _batch(step, least=True),
    "wider_precision": _format(_WIDER),
    "narrower_precision": _format(_NARROWER),
}
