"""What ``sim collective`` prints: the table of rccl-tests, and a user's log beside it.

Works on the JSON form of ``sim collective --json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.report.quantities import significant

_TESTS = {"all_to_all": "alltoall", "send": "sendrecv"}  # names of rccl-tests that differ from ours
_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
_ROOTED = ("broadcast", "reduce")
_STYLES = {"normal": "green", "low": "red", "suspicious": "yellow"}


def collective_table(content: Mapping[str, Any]) -> str:
    """The predicted table as rccl-tests prints one, comments included; any reader of such logs can read it."""
    kind = content["collective"]
    stack = f"{content['stack']} ({content['stack_date']})"
    lines = [
        f"# {_TESTS.get(kind, kind)}_perf, predicted by trainsim: nothing here was measured",
        f"# {content['ranks']} ranks, one process per GPU: {content['nodes']} x {content['node']} ({content['gpu']})",
        f"# software: {stack}",
        "#",
        f"#{'out-of-place':>74}",
        f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}  {'time':>7}  {'algbw':>6}  {'busbw':>6} #wrong",
        f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}  {'(us)':>7}  {'(GB/s)':>6}  {'(GB/s)':>6}",
    ]
    lines.extend(_table_row(kind, row) for row in content["rows"])
    lines.append(f"# Avg bus bandwidth    : {fmean(row['busbw_Bps'] for row in content['rows']) / 1e9:.3f}")
    lines += [f"# {warning}" for warning in content["warnings"]]
    lines.append(
        f"# figures and sources: sim catalog {content['node']}; sim catalog {content['stack']}; or --json"
    )
    return "\n".join(lines)


def comparison_page(content: Mapping[str, Any]) -> RenderableType:
    """Each size of the log with its verdict, then every cause with what to look at."""
    heading = Text.assemble(
        (f"{content['collective']}: {content['log']}", "bold"),
        f" against {content['ranks']} x {content['gpu']} ({content['nodes']} x {content['node']}), "
        f"{content['stack']} of {content['stack_date']}",
    )
    counts = ", ".join(f"{number} {verdict}" for verdict, number in content["verdicts"].items())
    parts: list[RenderableType] = [heading, Text(), _rows(content), Text(f"{counts}", style="bold")]
    for cause in content["causes"]:
        parts += [
            Text(),
            Text.assemble((f"{cause['key']} ({cause['confidence']})", "bold"), f": {cause['finding']}"),
            Text(f"  {cause['advice']}", style="dim"),
        ]
    if any(row["causes"] == ["unexplained"] for row in content["rows"]):
        parts += [Text(), Text("unexplained: below the prediction, and no known fault has this shape")]
    parts += [Text(), *(Text(f"note: {warning}", style="yellow") for warning in content["warnings"])]
    return Group(*parts)


def _rows(content: Mapping[str, Any]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for name in ("size (B)", "time (us)", "predicted", "busbw (GB/s)", "predicted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("likely cause", overflow="fold")
    for row in content["rows"]:
        table.add_row(
            f"{row['size_bytes']}",
            significant(row["measured_time_s"] * 1e6),
            significant(row["time_s"] * 1e6),
            f"{row['measured_busbw_Bps'] / 1e9:.2f}",
            f"{row['busbw_Bps'] / 1e9:.2f}",
            Text(row["verdict"], style=_STYLES[row["verdict"]]),
            ", ".join(row["causes"]),
        )
    return table


def _table_row(kind: str, row: Mapping[str, Any]) -> str:
    redop, root = ("sum" if kind in _REDUCING else "none"), (0 if kind in _ROOTED else -1)
    return (
        f"{row['size_bytes']:>12}  {row['count']:>12}  {'float':>8}  {redop:>6}  {root:>6}  "
        f"{_microseconds(row['time_s']):>7}  {row['algbw_Bps'] / 1e9:>6.2f}  {row['busbw_Bps'] / 1e9:>6.2f}    N/A"
    )


def _microseconds(seconds: float) -> str:
    """As rccl-tests: two digits below 100 us, one below 10 ms, none above."""
    us = seconds * 1e6
    digits = 2 if us < 100 else 1 if us < 10_000 else 0
    return f"{us:.{digits}f}"
