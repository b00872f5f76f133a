"""``sim run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sim
from sim.cli.output import DOES_NOT_FIT, JsonFlag, print_json, print_page, require_file


def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Override a field; repeatable.")
    ] = None,
    as_json: JsonFlag = False,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a Kineto trace (.json or .json.gz) for Perfetto."),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory", help="Print the memory of every stage instead; with --json: add it over time."
        ),
    ] = False,
) -> None:
    """Predict one training step: time by cause, MFU, memory, bottleneck, sources."""
    require_file(scenario)
    result = sim.simulate(sim.load(scenario, overrides=tuple(overrides or ())))
    if trace is not None:
        from sim.report.trace import write_trace

        slices = write_trace(result, trace)
        typer.echo(
            f"trace of {slices:,} slices written to {trace}; open it in https://ui.perfetto.dev", err=True
        )
    if as_json:
        rows = [row._asdict() for row in result.memory_over_time()] if memory else []
        print_json(result.to_dict() | ({"memory_over_time": rows} if memory else {}))
    elif memory:
        from sim.report.terminal.memory_page import memory_page

        print_page(memory_page(result))
    else:
        from sim.report.terminal.step_page import step_page

        print_page(step_page(result))
    if not result.fits:
        raise typer.Exit(DOES_NOT_FIT)
