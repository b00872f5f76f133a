"""What ``sim validate`` prints: the ledger, run by run, and its mean errors.

Works on the documented JSON form ``{"runs": [...], "summary": {...}}``, so that a saved ledger prints the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sim.report.quantities import percent, signed_percent, significant, size

GOOD, POOR = 0.06, 0.20  # error bands that a reader should see at once
Run = Mapping[str, Any]
_METRICS = {
    "step_time_s": "s/step",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "samples_per_s": "samples/s",
    "peak_memory_bytes": "memory",
    "allocated_bytes_by_stage": "memory",
}


def validation_page(ledger: Mapping[str, Any]) -> RenderableType:
    """Runs by software stack, mean absolute errors by split, GPU and stack, what the ranges hold, then the notes."""
    runs: Sequence[Run] = ledger["runs"]
    summary: Mapping[str, Any] = ledger.get("summary", {})
    return Group(*_runs(runs), *_summary(summary), *_ranges(summary.get("range_90", {})), *_notes(runs))


def _runs(runs: Sequence[Run]) -> Iterator[RenderableType]:
    by_stack: dict[str, list[Run]] = {}
    for run in runs:
        untuned = "" if run.get("tuned", True) else " (untuned)"
        by_stack.setdefault(f"{run['stack']} on {run['gpu']}{untuned}", []).append(run)
    header = _runs_table()
    header.add_row("run", "split", "GPUs", "measured", "predicted", "metric", "error", style="dim")
    yield header
    for stack, members in by_stack.items():
        table = _runs_table()
        for run in members:
            table.add_row(*_row(run))
        yield Text(f"\n{stack}", style="bold")
        yield table


def _runs_table() -> Table:
    """Fixed widths, so that the tables of all stacks line up."""
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(ratio=1, overflow="fold")
    for width in (5, 6, 9, 9, 12, 8):
        table.add_column(width=width, justify="right", no_wrap=True)
    return table


def _row(run: Run) -> tuple[RenderableType, ...]:
    metric = run["metric"]
    return (
        run["id"],
        run["split"],
        f"{run['n_gpus']:,}",
        _quantity(run["measured"], metric),
        _quantity(run["predicted"], metric),
        _METRICS.get(metric, str(metric)),
        _error(run["error"]),
    )


def _notes(runs: Sequence[Run]) -> Iterator[RenderableType]:
    """Each distinct note once, with the runs that it is about."""
    about: dict[str, list[str]] = {}
    for run in runs:
        if run.get("note"):
            about.setdefault(run["note"], []).append(run["id"])
    if about:
        yield Text("Notes", style="bold")
    for note, ids in about.items():
        yield Padding(Text.assemble((", ".join(ids), "default"), f"\n{note}", style="dim"), (0, 0, 0, 2))


def _quantity(value: float | None, metric: str) -> str:
    if value is None:
        return "–"
    return size(value) if "bytes" in metric else significant(value)


def _error(error: float | None) -> Text:
    if error is None:
        return Text("–", style="dim")
    style = "green" if abs(error) <= GOOD else "red" if abs(error) > POOR else "yellow"
    return Text(signed_percent(error), style=style)


def _summary(summary: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A table for each group of the summary that has errors."""
    header = _errors_table()
    header.add_row("", "MAPE", "bias", "worst", "configs", "worst run", style="dim")
    yield Text(
        "\nErrors over distinct configurations (predicted step time over measured, minus one)", style="bold"
    )
    yield header
    for name, group in summary.items():
        members = {"": group} if _has_errors(group) else group
        if isinstance(members, Mapping) and any(map(_has_errors, members.values())):
            yield Text(_words(name), style="bold")
            table = _errors_table()
            for member, errors in members.items():
                if _has_errors(errors):
                    table.add_row(*_errors_row(f"  {_words(member)}", errors))
            yield table
            yield Text()


def _has_errors(group: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(group, Mapping) and "mape" in group


def _errors_table() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=8, overflow="fold")
    for width in (7, 8, 8, 7):
        table.add_column(width=width, justify="right", no_wrap=True)
    table.add_column(ratio=9, style="dim", overflow="fold")
    return table


def _errors_row(label: str, errors: Mapping[str, Any]) -> tuple[RenderableType, ...]:
    return (
        label,
        percent(errors["mape"]),
        signed_percent(errors["bias"]) if "bias" in errors else "",
        signed_percent(errors["worst"]) if "worst" in errors else "",
        str(errors.get("configurations", "")),
        errors.get("worst_id", ""),
    )


def _ranges(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """How many check configurations lie in the 90 % range that the rest of the ledger gives them."""
    if not found:
        return
    yield Text("90 % ranges: check configurations inside, each judged by the others", style="bold")
    rows = {"all": found, "tuned": found["tuned"]} | {
        f"as {kind}": row for kind, row in found["kinds"].items()
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in (20, 9, 12, 8):
        table.add_column(width=width, justify="left" if width == 20 else "right")
    table.add_row("", "inside", "range", "share", style="dim")
    for name, row in rows.items():
        half = f"× or ÷ {1 + row['half_width']:.2f}" if "half_width" in row else ""
        table.add_row(f"  {name}", f"{row['inside']}/{row['configurations']}", half, _share(row))
    yield table
    yield Text()


def _share(row: Mapping[str, Any]) -> str:
    return "" if row["share"] is None else percent(row["share"])


def _words(name: str) -> str:
    return name.replace("_", " ")
