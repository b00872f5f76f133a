"""Logs as rccl-tests would print them, from made times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sim.collective import collective_machine, parse_sizes
from sim.interop.bus_bandwidth import COLLECTIVES, bus_factor

DATA = Path(__file__).resolve().parents[1] / "data" / "log_formats"
HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong"
SIZES = parse_sizes("8:16G*2")


def rccl_text(
    kind: str, ranks: int, rows: Iterable[tuple[int, float]], head: Sequence[str] = (), wrong: str = "0"
) -> str:
    """A table of ``kind`` with (bytes, seconds) rows; all digits, so that rounding hides nothing."""
    redop = "sum" if kind in ("all_reduce", "reduce_scatter") else "none"
    parts = ranks if COLLECTIVES[kind] == 1 else 1
    lines = [f"# {kind}_perf", *head, HEADER]
    for size, seconds in rows:
        rate = size / seconds / 1e9
        bus = rate * bus_factor(kind, ranks)
        count = size // 4 // parts
        lines.append(
            f"{size:>12} {count:>12} float {redop} -1 {seconds * 1e6:.6f} {rate:.9f} {bus:.9f} {wrong}"
        )
    return "\n".join([*lines, "# Avg bus bandwidth    : 1.0", ""])


def predicted_rows(
    kind: str,
    node: str,
    nodes: int = 1,
    gpus: int | None = None,
    slower: Callable[[int, float], float] = lambda _size, seconds: seconds,
) -> list[tuple[int, float]]:
    """What the model predicts for a catalog machine, changed by ``slower(size, seconds)``."""
    machine = collective_machine(node, nodes, gpus, None)
    return [(size, slower(size, machine.seconds(kind, size))) for size in SIZES]


def devices(ranks: int, gpu: str = "AMD Instinct MI300X", *, one_process: bool = False) -> list[str]:
    return [
        f"#  Rank {rank:2} Group  0 Pid {1 if one_process else rank + 1} on HOST{rank // 8} device {rank % 8} [0000:05:00] {gpu}"
        for rank in range(ranks)
    ]
