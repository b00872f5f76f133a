"""``sim measure``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sim
from sim.cli.output import require_file


def measure(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for the logs.")],
    what: Annotated[str, typer.Argument(help="gemm, attention, stream, collectives or all.")] = "all",
    scenario: Annotated[Path | None, typer.Argument(help="Adds the shapes of its ranks.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few shapes, short runs.")] = False,
    device: Annotated[str | None, typer.Option(help="cuda (ROCm too; the default) or cpu.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds for each measured point.")] = None,
) -> None:
    """Measure kernels and collectives on this machine (extra: measure) and write what calibrate reads."""
    if scenario is not None:
        require_file(scenario)
    loaded = None if scenario is None else sim.load(scenario)
    files = sim.measure_machine(what, output, scenario=loaded, device=device, seconds=seconds, quick=quick)
    for file in files:
        typer.echo(str(file))
