"""What ``sim catalog`` prints: what is known, and each figure of one entry with its source.

Works on the JSON form of ``sim catalog --json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_CONFIDENCE_STYLES = {
    "high": "green",
    "medium": "default",
    "low": "yellow",
    "derived": "cyan",
    "assumed": "magenta",
}


def catalog_page(entries: Sequence[Mapping[str, Any]]) -> RenderableType:
    """All names, by kind, with their titles."""
    parts: list[RenderableType] = []
    name_width = 2 + max(len(entry["name"]) for entry in entries)
    for kind, group in groupby(entries, key=lambda entry: entry["kind"]):
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=name_width, no_wrap=True)
        table.add_column(ratio=1, overflow="fold", style="dim")
        table.add_column(justify="right", style="yellow")
        for entry in group:
            table.add_row(
                f"  {entry['name']}", entry["title"], entry["remark"].replace(" figures assumed", " assumed")
            )
        parts += [Text(f"{kind}s" if kind != "switch" else "switches", style="bold"), table, Text()]
    parts.append(Text("sim catalog NAME shows the figures of one entry with their sources.", style="dim"))
    return Group(*parts)


def entry_page(entry: Mapping[str, Any]) -> RenderableType:
    """One entry: each figure as its author wrote it, with confidence and note; the sources numbered below."""
    heading = Text.assemble((entry["name"], "bold"), f" · {entry['kind']} · {entry['title']}")
    numbers = {
        source: n for n, source in enumerate(dict.fromkeys(f["source"] for f in entry["figures"]), start=1)
    }
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    table.add_column("figure", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("confidence", no_wrap=True)
    table.add_column("source", no_wrap=True, style="dim")
    table.add_column("note", overflow="fold", style="dim")
    for figure in entry["figures"]:
        confidence = Text(figure["confidence"], style=_CONFIDENCE_STYLES.get(figure["confidence"], "default"))
        table.add_row(
            figure["figure"], figure["value"], confidence, f"[{numbers[figure['source']]}]", figure["note"]
        )
    sources = Table.grid(padding=(0, 1, 0, 0))
    sources.add_column(justify="right", no_wrap=True)
    sources.add_column(overflow="fold", style="dim")
    for source, number in numbers.items():
        sources.add_row(f"[{number}]", source)
    return Group(heading, Text(), table, Text(), sources)
