"""``sim import``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import sim
from sim.cli.output import JsonFlag, print_json, refuse


class Kind(StrEnum):
    hf = "hf"
    megatron = "megatron"
    primus = "primus"
    torchtitan = "torchtitan"


def import_config(
    kind: Annotated[Kind, typer.Argument(help="What kind of file it is.")],
    file: Annotated[Path, typer.Argument(help="config.json, launch script or log, experiment, TOML or log.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the scenario here; default: print it."),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Node of the catalog it runs on; no such file says it.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(metavar="N", help="Number of nodes.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Set a field; repeatable.")
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Value of a variable in the file; repeatable."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Primus: the tree of presets (primus/configs).")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Predict without this setting instead of refusing it; repeatable."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Turn somebody else's configuration into a scenario: Hugging Face, Megatron-LM, Primus, TorchTitan."""
    found = sim.import_scenario(
        kind.value,
        file,
        node=node,
        nodes=nodes,
        overrides=tuple(overrides or ()),
        environment=_variables(environment or []),
        root=root,
        ignore=tuple(ignore or ()),
    )
    if output is not None:
        output.write_text(found.yaml, encoding="utf-8")
        for warning in found.warnings:
            typer.echo(f"note: {warning}", err=True)
        typer.echo(f"scenario written to {output}; sim run {output}", err=True)
    if as_json:
        print_json(found.to_dict())
    elif output is None:
        typer.echo(found.yaml, nl=False)


def _variables(given: list[str]) -> dict[str, str]:
    variables = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            refuse(f"--env {text[:60]}: write NAME=VALUE")
        variables[name] = value
    return variables
