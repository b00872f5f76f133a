"""``sim catalog``."""

from __future__ import annotations

from typing import Annotated

import typer

import sim
from sim.cli.output import JsonFlag, print_json, print_page


def catalog(
    name: Annotated[str | None, typer.Argument(help="An entry; without it, all names.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is known: GPUs, NICs, nodes, stacks, models, each figure with its source."""
    from sim.report.terminal.catalog_page import catalog_page, entry_page

    if name is None:
        entries = [entry.to_dict() for entry in sim.catalog_entries()]
        if as_json:
            print_json(entries)
        else:
            print_page(catalog_page(entries))
    else:
        entry = sim.catalog_entry(name).to_dict()
        if as_json:
            print_json(entry)
        else:
            print_page(entry_page(entry))
