"""What ``sim calibrate`` prints: each fitted figure, and errors before and after.

Works on the JSON form of ``sim calibrate --json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.report.quantities import percent, significant


def calibration_page(content: Mapping[str, Any]) -> RenderableType:
    heading = Text.assemble((content["name"], "bold"), f": {content['gpu']}, on top of {content['base']}")
    figures = _table("figure", "before", "after", "how")
    for figure in content["figures"]:
        before = "–" if figure["before"] is None else significant(figure["before"])
        logs = ", ".join(PurePath(log).name for log in figure["logs"])
        figures.add_row(figure["figure"], before, significant(figure["after"]), f"{figure['note']} ({logs})")
    errors = _table("log", "points", "error before", "after", "what")
    for row in content["errors"]:
        errors.add_row(
            PurePath(row["log"]).name,
            str(row["points"]),
            percent(row["error_before"]),
            percent(row["error_after"]),
            row["what"],
        )
    words = Text("Errors are the mean of |ln(predicted / measured)| over the points of a log.", style="dim")
    notes = [Text(f"note: {note}", style="yellow") for note in content["notes"]]
    return Group(heading, Text(), figures, Text(), errors, words, *([Text(), *notes] if notes else []))


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for name in names:
        number = name in ("before", "after", "points", "error before")
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return table
