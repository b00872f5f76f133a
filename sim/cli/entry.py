"""The application: every command in the order of the help page, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import sim
from sim.cli.calibrate import calibrate
from sim.cli.catalog import catalog
from sim.cli.collective import collective
from sim.cli.explain import explain
from sim.cli.export_config import export_config
from sim.cli.import_config import import_config
from sim.cli.measure import measure
from sim.cli.output import BAD_INPUT, refuse
from sim.cli.run import run
from sim.cli.schema import schema
from sim.cli.validate import validate

app = typer.Typer(
    name="sim",
    help="Predicts how long a training step takes on a cluster, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"trainsim {sim.__version__}")
        raise typer.Exit


_COMMANDS = (
    run,
    explain,
    validate,
    catalog,
    collective,
    calibrate,
    measure,
    schema,
)
for _command in _COMMANDS:
    app.command()(_command)
app.command("import")(import_config)
app.command("export")(export_config)


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 shows ? instead of failing
    try:
        app()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough. The interpreter would flush again at exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:  # every input error of the project is one: scenarios, names, units, plans
        located: tuple[str, ...] = getattr(error, "errors", ())  # of a scenario: file:line:column: field: ...
        if located:
            typer.echo("\n".join(located), err=True)
            raise SystemExit(BAD_INPUT) from None
        refuse(str(error))
