"""What commands share: printing pages and JSON, refusing bad input, the exit codes and the ``--json`` flag."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

BAD_INPUT, DOES_NOT_FIT = 2, 3

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys instead of a page.")]


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def print_page(page: RenderableType, *, err: bool = False) -> None:
    from sim.report.terminal.console import console

    console(sys.stderr if err else sys.stdout).print(page)


def refuse(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(BAD_INPUT)


def require_file(path: Path) -> None:
    if path.is_dir():
        refuse(f"{path}: is a folder; name a scenario file in it")
    if not path.exists():
        nearest = _nearest_scenarios(path)
        refuse(f"{path}: no such file" + (f"; did you mean {nearest}?" if nearest else ""))


def _nearest_scenarios(path: Path) -> str:
    """Files beside ``path``, or shipped ones, whose names are close to it."""
    import difflib

    from sim.data_paths import scenarios_dir

    try:
        shipped = scenarios_dir()
    except FileNotFoundError:
        shipped = path.parent
    known = {file.name: file for folder in (shipped, path.parent) for file in folder.glob("*.y*ml")}
    return " or ".join(str(known[name]) for name in difflib.get_close_matches(path.name, known, n=2))
