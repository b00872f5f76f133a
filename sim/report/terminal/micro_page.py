"""What ``sim validate --micro`` prints: mean log errors by kernel and machine, then the rows that miss most.

Works on the JSON form, so that a saved report prints the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.report.quantities import percent, signed_percent, significant

_SCALES = {
    "FLOP/s": (1e12, "TFLOP/s"),
    "B/s": (1e9, "GB/s"),
    "Hz": (1e6, "MHz"),
    "s": (1e-6, "µs"),
    "x": (1.0, "x"),
}
Row = Mapping[str, Any]


def micro_page(report: Mapping[str, Any]) -> RenderableType:
    """Errors are ln(predicted rate / measured rate): positive is too fast."""
    summary = report["summary"]
    return Group(
        Text("Micro-benchmarks: mean absolute log error of rows that no figure was read off", style="bold"),
        _errors(summary),
        Text(_counts(summary), style="dim"),
        *_list("Largest misses", report["worst"]),
        *_list("Acceptance floors above the prediction", report["violated_floors"]),
    )


def _errors(summary: Mapping[str, Any]) -> Table:
    table = _grid(ratio=1, widths=(6, 8, 8, 9))
    table.add_row("kernel and machine", "rows", "error", "bias", "left out", style="dim")
    left_out, by_machine = summary["left_one_out"], summary["check_by_machine"]
    others = summary["left_one_out_by_machine"]
    for kernel, errors in summary["check"].items():
        table.add_row(Text(kernel, style="bold"), *_cells(errors, left_out.get(kernel)))
        for machine, own in by_machine[kernel].items():
            table.add_row(f"  {machine}", *_cells(own, others.get(kernel, {}).get(machine)))
    return table


def _cells(errors: Mapping[str, Any], left_out: Mapping[str, Any] | None) -> tuple[str, ...]:
    return (
        str(errors["rows"]),
        percent(errors["mean_absolute"]),
        signed_percent(errors["bias"]),
        "" if left_out is None else percent(left_out["mean_absolute"]),
    )


def _counts(summary: Mapping[str, Any]) -> str:
    return (
        f"\n{summary['rows']:,} rows: {summary['set_aside']} set aside with reasons, {summary['floors']} acceptance "
        f"floors of which {summary['floors_violated']} lie above the prediction. Left out: predicted without the "
        "machine's own table or curve, from the other machines.\n"
    )


def _list(title: str, rows: Sequence[Row]) -> Iterator[RenderableType]:
    if not rows:
        return
    yield Text(title, style="bold")
    table = _grid(ratio=1, widths=(10, 10, 9, 8))
    table.add_row("", "measured", "predicted", "", "error", style="dim")
    for row in rows:
        scale, unit = _SCALES[row["unit"]]
        figures = (significant(row["measured"] / scale), significant(row["predicted"] / scale))
        table.add_row(row["label"], *figures, unit, signed_percent(row["error"]))
    yield table
    yield Text()


def _grid(ratio: int, widths: Sequence[int]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(ratio=ratio, overflow="fold")
    for width in widths:
        table.add_column(width=width, justify="right", no_wrap=True)
    return table
