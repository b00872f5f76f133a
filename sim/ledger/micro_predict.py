"""What the hardware models say of one row of the micro-ledger, in the row's own unit."""

from __future__ import annotations

from dataclasses import replace

from hwmodels import catalog
from hwmodels.gpu import Gpu
from hwmodels.power import achievable_flops, sustained_clock_Hz
from sim.ledger.micro_machines import Machines
from sim.ledger.micro_row import (
    Attention,
    Clock,
    Collective,
    Gemm,
    Message,
    MicroRow,
    Overlap,
    Stream,
)

# Formats that run on the matrix units at the rate of another: e5m2 as e4m3.
RATE_AS = {"bf8": "fp8"}

BY_HEAD = ("rotary", "heads forward", "heads backward")
"""Streaming kernels over rows of one attention head's width."""


class NotModelled(ValueError):
    """No model answers for this row."""


def predict(row: MicroRow, machines: Machines) -> float:
    """The row's figure as predicted, in ``row.unit``. Raises ``NotModelled`` or another ``ValueError``."""
    subject = row.subject
    match subject:
        case Gemm():
            return _figure(row, subject.flops, _gemm_s(subject, machines))
        case Attention():
            return _figure(row, subject.flops, _attention_s(subject, machines))
        case Stream():
            return _stream(row, subject, machines)
        case Clock():
            return sustained_clock_Hz(machines.gpu(subject.gpu), subject.dtype, subject.power_cap_W)
        case Overlap():
            return machines.stack(subject.gpu).overlap_slowdown
        case Collective():
            return _figure(row, subject.size_bytes * subject.bus_factor, collective_s(subject, machines))
        case Message():
            return _message_s(subject)
        case None:
            raise NotModelled(f"{row.location}: {row.set_aside}")


def _figure(row: MicroRow, work: float, kernel_s: float) -> float:
    """Seconds or work per second, as the harness would see it.

    The launch inside its events adds to every call; a host that cannot issue faster than ``issue_s``
    hides shorter kernels altogether.
    """
    seconds = max(kernel_s + row.overhead_s, row.issue_s)
    return seconds if row.unit == "s" else work / seconds


def _gemm_s(gemm: Gemm, machines: Machines) -> float:
    dtype = RATE_AS.get(gemm.dtype, gemm.dtype)
    model = machines.kernels(gemm.gpu, gemm.power_cap_W)
    if gemm.clock_Hz is not None:
        model = replace(model, gpu=_at_clock(model.gpu, dtype, gemm.clock_Hz))
    return sum(model.gemm_s(m, n, k, dtype) for m, n, k in gemm.shapes) * gemm.batch


def _at_clock(gpu: Gpu, dtype: str, clock_Hz: float) -> Gpu:
    """``gpu`` locked to ``clock_Hz``, which is below what its power cap allows."""
    rate = achievable_flops(gpu, dtype) * clock_Hz / sustained_clock_Hz(gpu, dtype)
    return replace(
        gpu,
        achievable_flops={**gpu.achievable_flops, dtype: rate},
        sustained_clock_Hz={**gpu.sustained_clock_Hz, dtype: clock_Hz},
    )


def _attention_s(attention: Attention, machines: Machines) -> float:
    return machines.kernels(attention.gpu).attention_s(
        attention.flops,
        attention.score_elements,
        attention.sequence,
        backward=attention.direction == "backward",
        fused=True,
        causal=attention.mask == "causal",
        head_dim=attention.head_dim,
    )


def _stream(row: MicroRow, stream: Stream, machines: Machines) -> float:
    model = machines.kernels(stream.gpu)
    if stream.bytes_moved is None:
        return model.stream_Bps
    seconds = model.stream_s(stream.bytes_moved, fusible=False, by_head=stream.op in BY_HEAD)
    return _figure(row, stream.bytes_moved, seconds)


def collective_s(collective: Collective, machines: Machines) -> float:
    model = machines.collectives(collective.node, collective.stack)
    try:
        return model.seconds(
            collective.op,
            collective.size_bytes,
            collective.ranks,
            collective.ranks_per_node,
            collective.algorithm,
        )
    except KeyError:
        raise NotModelled(f"{collective.op} is not a collective of hwmodels.collectives") from None


def _message_s(message: Message) -> float:
    """One latency, then the bytes of the batch at the NIC's usable rate."""
    nic = catalog.nic(message.nic)
    return nic.latency_s + message.batch * message.size_bytes / nic.usable_bandwidth_Bps
