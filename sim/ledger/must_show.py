"""The figures that the machine models must reach, beside what they reach now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sim.ledger.micro import MicroReport, ScoredRow
from sim.ledger.micro_machines import Machines
from sim.ledger.micro_predict import collective_s
from sim.ledger.micro_row import Collective

PLATEAU_BYTES = 2.0**34  # 16 GiB, where bus bandwidths are flat
MIB, GIB = 2.0**20, 2.0**30
LUMI_NODE, LUMI_STACK = "mi250x-8gcd-4x200g", "megatron-deepspeed-2023-mi250x"


@dataclass(frozen=True)
class Target:
    """``value`` should lie between ``low`` and ``high``, all in the unit of ``words``."""

    name: str
    words: str
    value: float
    low: float
    high: float

    @property
    def reached(self) -> bool:
        return self.low <= self.value <= self.high


def targets(report: MicroReport) -> tuple[Target, ...]:
    """Mean errors in percent, then bandwidths in GB/s."""
    return (*_errors(report), *_bandwidths())


def _errors(report: MicroReport) -> list[Target]:
    # Constants that all machines share were fitted on all rows: with a machine left out of the fit, its rows
    # are checks, whatever their split.
    attention = [row for row in report.left_out if row.kernel.startswith("attention")]
    curves = [row for row in report.left_out if row.kernel == "all-reduce, one node"]
    kernels = (
        ("gemm", "GEMM", 10.0, _check(report, "GEMM")),
        ("attention", "attention, each GPU from the others", 12.0, attention),
        ("hbm", "HBM streams", 6.0, _check(report, "HBM stream")),
        ("all-reduce-one-node", "all-reduce, one node", 8.0, _check(report, "all-reduce, one node")),
        ("all-reduce-left-out", "all-reduce, one node, each from the protocols of the others", 8.0, curves),
        ("all-reduce-two-nodes", "all-reduce, two nodes", 12.0, _check(report, "all-reduce, two nodes")),
    )
    return [Target(name, f"{words}: error, %", _mean(rows), 0.0, high) for name, words, high, rows in kernels]


def _check(report: MicroReport, kernel: str) -> list[ScoredRow]:
    return [row for row in report.check if row.kernel == kernel]


def _mean(rows: Sequence[ScoredRow]) -> float:
    return 100.0 * fmean(abs(row.error) for row in rows if row.error is not None)


def _bandwidths() -> list[Target]:
    mesh = "mi300x-8x400g"
    found = [
        _near("mi300x-pair", "2 MI300X", bus_GBps(mesh, 2, 1), 46.0, 0.05),
        _near("mi300x-four", "4 MI300X, three links", bus_GBps(mesh, 4, 1), 3 * 46.0, 0.05),
        _near("mi300x-eight", "8 MI300X", bus_GBps(mesh, 8, 1), 316.0, 0.02),
        _near("mi300x-two-nodes", "2 nodes of MI300X", bus_GBps(mesh, 16, 2), 360.0, 0.03),
    ]
    for node in ("h200-8x400g", "b200-8x400g"):
        flat = bus_GBps(node, 4, 1, "ring") / bus_GBps(node, 8, 1, "ring")
        name = node.split("-")[0]
        found.append(Target(f"{name}-flat", f"4 of 8 {name.upper()} over all 8, rings", flat, 0.97, 1.03))
    for ranks in (2, 4, 8, 16, 32):
        reached = _lumi("all_reduce", ranks, ranks, 2.73 * GIB)
        words = f"LUMI data-parallel all-reduce, {ranks} replicas"
        found.append(Target(f"lumi-dp{ranks}", f"{words}, GB/s", reached, 4.8 * 0.85, 5.0 * 1.15))
    gather, send = _lumi("all_gather", 8, 1, 112 * MIB), _lumi("send", 2, 2, 14 * MIB)
    found.append(_near("lumi-tp8", "LUMI all-gather of 112 MiB inside a node", gather, 86.0, 0.15))
    found.append(_near("lumi-pp", "LUMI pipeline send of 14 MiB", send, 6.4, 0.15))
    return found


def _near(name: str, words: str, value: float, target: float, tolerance: float) -> Target:
    return Target(name, f"{words}, GB/s", value, target * (1 - tolerance), target * (1 + tolerance))


def _lumi(op: str, ranks: int, nodes: int, size_bytes: float) -> float:
    """On LUMI's nodes and stack; across nodes eight rings share each node's NICs."""
    rings = 8 if nodes > 1 else 1
    return _bus_GBps(Collective(LUMI_NODE, op, ranks, nodes, size_bytes, "auto", rings, LUMI_STACK))


def bus_GBps(node: str, ranks: int, nodes: int, algorithm: str = "auto") -> float:
    """Predicted bus bandwidth of a large all-reduce in GB/s, as rccl-tests would print it."""
    return _bus_GBps(Collective(node, "all_reduce", ranks, nodes, PLATEAU_BYTES, algorithm))


def _bus_GBps(what: Collective) -> float:
    return what.size_bytes * what.bus_factor / collective_s(what, Machines()) / 1e9
