"""``sim export``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import sim
from sim.cli.output import require_file


class Target(StrEnum):
    megatron = "megatron"


def export_config(
    target: Annotated[Target, typer.Argument(help="Whose configuration to write.")],
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the script here; default: print it."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Override a field; repeatable.")
    ] = None,
) -> None:
    """Write a scenario as a launch script of Megatron-LM, which ``sim import`` reads back as the same scenario."""
    require_file(scenario)
    script = sim.export_megatron(sim.load(scenario, overrides=tuple(overrides or ())))
    if output is None:
        typer.echo(script.text, nl=False)
        return
    output.write_text(script.text, encoding="utf-8")
    typer.echo(f"{target.value} script written to {output}", err=True)
