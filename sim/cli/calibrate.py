"""``sim calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sim
from sim.cli.output import JsonFlag, print_json, print_page


def calibrate(
    name: Annotated[str, typer.Argument(help="Name of the new profile.")],
    more_logs: Annotated[list[str] | None, typer.Argument(metavar="[LOG]...", help="Further logs.")] = None,
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="LOG", help="Log of a benchmark, or a ledger file of runs; repeatable."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="STACK", help="Profile to start from; default: the newest.")
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Node the logs come from, where they do not say.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the profile here; default: print it."),
    ] = None,
    date: Annotated[
        str | None, typer.Option(metavar="DAY", help="Date of the profile; default: today.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fit a software profile from logs of rccl-tests, hipblaslt-bench, BabelStream, … and training runs."""
    found = sim.calibrate_stack(name, [*(logs or ()), *(more_logs or ())], base=base, node=node, date=date)
    if output is not None:
        output.write_text(found.yaml, encoding="utf-8")
        typer.echo(f"profile written to {output}; use it with cluster.stack: {output}", err=True)
    if as_json:
        print_json(found.to_dict() | {"yaml": found.yaml})
        return
    from sim.report.terminal.calibration_page import calibration_page

    if output is None:
        typer.echo(found.yaml)
    print_page(calibration_page(found.to_dict()), err=output is None)
