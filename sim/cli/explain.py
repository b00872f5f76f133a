"""``sim explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sim
from sim.cli.output import JsonFlag, print_json, print_page, refuse, require_file


def explain(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML) of the run.")],
    measured: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE",
            help="1.43s, '9600 tokens/s/GPU', '18.7 samples/s', '296 TFLOP/s' or '24.3 % MFU'.",
        ),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="LOG",
            help="Training log of Megatron-LM, Primus or TorchTitan; repeat for the pieces of a rotated one, oldest first.",
        ),
    ] = None,
    healthy: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE", help="A known good figure of the same run: the gap is measured against it."
        ),
    ] = None,
    notes: Annotated[
        list[str] | None,
        typer.Option(
            "--note",
            metavar="SIGN=VALUE",
            help="What else is seen: one-node=normal, gemm=low, …; repeatable.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Override a field; repeatable.")
    ] = None,
    write_run: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write scenario and log as a measured run, for `sim validate --runs` and `sim calibrate`.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every mechanism, not the first eight.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say where a measured run loses against its prediction: mechanisms in the order of plausibility."""
    require_file(scenario)
    asked = sim.load(scenario, overrides=tuple(overrides or ()))
    if write_run is not None:
        if not log:
            refuse("--write-run needs --log: a measured run comes from a log")
        write_run.write_text(sim.measured_run(sim.read_training_log(*log), asked), encoding="utf-8")
        typer.echo(f"measured run written to {write_run}", err=True)
    found = sim.explain(
        asked,
        measured,
        log=log or None,
        healthy=healthy,
        notes=tuple(notes or ()),
    ).to_dict()
    if as_json:
        print_json(found)
        return
    from sim.report.terminal.explanation_page import explanation_page

    print_page(explanation_page(found, scenario=str(scenario), every=every))
