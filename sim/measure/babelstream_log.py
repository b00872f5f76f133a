"""Streaming kernels in the layout that BabelStream prints."""

from __future__ import annotations

from sim.measure.streams import StreamTiming


def babelstream_table(timings: list[StreamTiming], *, implementation: str, array_bytes: int) -> str:
    """MBytes/sec (10⁶) by the fastest sample. Times are of one call, with more digits than the original prints."""
    header = (
        "BabelStream layout, written by sim measure",
        f"Implementation: {implementation}",
        f"Running kernels {min(len(t.timing.samples_s) for t in timings)} times",
        "Precision: double; kernels that BabelStream does not have: bf16",
        f"Array size: {array_bytes * 1e-6:.1f} MB (={array_bytes * 1e-9:.1f} GB)",
        f"{'Function':<12}{'MBytes/sec':<12}{'Min (sec)':<12}{'Max':<12}{'Average':<12}",
    )
    return "\n".join((*header, *(_row(t) for t in timings))) + "\n"


def _row(measured: StreamTiming) -> str:
    t = measured.timing
    return (
        f"{measured.name:<12}{measured.best_Bps * 1e-6:<12.3f}{t.min_s:<12.8f}{t.max_s:<12.8f}{t.mean_s:<12.8f}"
    ).rstrip()
