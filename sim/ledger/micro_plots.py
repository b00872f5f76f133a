"""The plots of ``docs/micro.md``: GEMM parity, attention by sequence length, all-reduce by size."""

from __future__ import annotations

from dataclasses import replace

from sim.ledger.micro import MicroReport
from sim.ledger.micro_machines import Machines
from sim.ledger.micro_predict import predict
from sim.ledger.micro_row import Attention, Collective, Gemm, MicroRow, Subject, size_words
from sim.ledger.run import Source
from sim.report.svg_plot import Point, Series, log_plot

SEQUENCES = (1024, 2048, 4096, 8192, 16384)
SIZES = tuple(2.0**exponent for exponent in range(13, 35))
SIZE_TICKS = tuple(2.0**exponent for exponent in (13, 16, 20, 23, 26, 30, 34))
CURVES = (
    (Collective("mi300x-8x400g", "all_reduce", 8, 1, 1.0), "8 MI300X"),
    (Collective("mi300x-8x400g", "all_reduce", 16, 2, 1.0), "16 MI300X, two nodes"),
    (Collective("mi350x-8x400g", "all_reduce", 8, 1, 1.0), "8 MI350X"),
    (Collective("b200-8x400g", "all_reduce", 8, 1, 1.0, "in-switch"), "8 B200, in-switch"),
    (Collective("a100-8x200g", "all_reduce", 8, 1, 1.0), "8 A100"),
)


def plots(report: MicroReport, machines: Machines) -> dict[str, tuple[str, str]]:
    """File stem to (title, SVG)."""
    return {
        "gemm": _gemm(report),
        "attention": _attention(report, machines),
        "all-reduce": _all_reduce(report, machines),
    }


def _gemm(report: MicroReport) -> tuple[str, str]:
    title = "GEMM rates, TFLOP/s: predicted against measured"
    points: dict[str, list[Point]] = {}
    for row in report.measured:
        gemm, predicted = row.row.subject, row.predicted
        if isinstance(gemm, Gemm) and predicted is not None:
            rates = (
                _per_second(row.row, row.row.value, gemm.flops),
                _per_second(row.row, predicted, gemm.flops),
            )
            points.setdefault(row.machine, []).append((rates[0] / 1e12, rates[1] / 1e12))
    series = [Series(name.upper(), tuple(points[name])) for name in sorted(points)]
    return title, log_plot(title, "measured", "predicted", series, diagonal=True)


def _attention(report: MicroReport, machines: Machines) -> tuple[str, str]:
    title = "Causal attention, head dim 128, TFLOP/s: measured (dots), predicted (lines)"
    series = []
    for gpu in ("mi300x", "mi355x"):
        for direction in ("forward", "backward"):
            curve = Attention(gpu, direction, "causal", 1, 128, 16, 16, 16)
            points = _attention_points(report, curve)
            line = [
                (float(s), _predicted(replace(curve, sequence=s), "FLOP/s", machines) / 1e12)
                for s in SEQUENCES
            ]
            series.append(Series(f"{gpu.upper()} {direction}", points, tuple(line)))
    words = {float(s): f"{s // 1024}k" for s in SEQUENCES}
    return title, log_plot(title, "sequence length", "TFLOP/s", series, x_base=2, x_words=words)


def _attention_points(report: MicroReport, curve: Attention) -> tuple[Point, ...]:
    """Measured rates of the GPU, direction, mask and head width of ``curve``, any heads."""
    points = []
    for row in report.measured:
        what = row.row.subject
        if isinstance(what, Attention):
            same = replace(what, sequence=1, batch=curve.batch, heads=curve.heads, kv_heads=curve.kv_heads)
            if same == curve:
                points.append((float(what.sequence), row.row.value / 1e12))
    return tuple(points)


def _all_reduce(report: MicroReport, machines: Machines) -> tuple[str, str]:
    title = "All-reduce bus bandwidth, GB/s: measured (dots), predicted (lines)"
    series = []
    for curve, name in CURVES:
        points = _all_reduce_points(report, curve)
        line = [(size, _predicted(replace(curve, size_bytes=size), "B/s", machines) / 1e9) for size in SIZES]
        series.append(Series(name, points, tuple(line)))
    words = {size: size_words(size) for size in SIZE_TICKS}
    return title, log_plot(title, "size", "GB/s", series, x_base=2, x_words=words)


def _all_reduce_points(report: MicroReport, curve: Collective) -> tuple[Point, ...]:
    """Measured bus bandwidths of the group and algorithm of ``curve`` from its smallest size on."""
    points = []
    for row in report.measured:
        what = row.row.subject
        if not isinstance(what, Collective) or what.size_bytes < SIZES[0]:
            continue
        if replace(what, size_bytes=curve.size_bytes) == curve:
            bus = _per_second(row.row, row.row.value, what.size_bytes * what.bus_factor)
            points.append((what.size_bytes, bus / 1e9))
    return tuple(points)


def _predicted(subject: Subject, unit: str, machines: Machines) -> float:
    """What a harness without overhead would measure."""
    row = MicroRow("", subject, 1.0, unit, "measured", "high", "check", Source(), "")
    return predict(row, machines)


def _per_second(row: MicroRow, value: float, work: float) -> float:
    return work / value if row.unit == "s" else value
