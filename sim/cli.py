"""The command ``sim``: parse, call one function of the public API, show.

Exit codes: 0 ok, 2 bad input (a message on standard error, never a traceback), 3 does not fit in memory (the
prediction is printed all the same). Everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import sim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

BAD_INPUT, DOES_NOT_FIT = 2, 3

app = typer.Typer(
    name="sim",
    help="Predicts how long a training step takes on a cluster, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys instead of a page.")]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"trainsim {sim.__version__}")
        raise typer.Exit


@app.command()
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
        bool, typer.Option("--memory", help="Print the memory of every stage instead.")
    ] = False,
) -> None:
    """Predict one training step: time by cause, MFU, memory, bottleneck, sources."""
    _require_file(scenario)
    result = sim.simulate(sim.load(scenario, overrides=tuple(overrides or ())))
    if trace is not None:
        from sim.report.trace import write_trace

        slices = write_trace(result, trace)
        typer.echo(
            f"trace of {slices:,} slices written to {trace}; open it in https://ui.perfetto.dev", err=True
        )
    if as_json:
        _print_json(result.to_dict())
    elif memory:
        from sim.report.terminal.memory_page import memory_page

        _print_page(memory_page(result))
    else:
        from sim.report.terminal.step_page import step_page

        _print_page(step_page(result))
    if not result.fits:
        raise typer.Exit(DOES_NOT_FIT)


@app.command()
def validate(
    runs: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of measured runs; default: the published ones.")
    ] = None,
    micro: Annotated[
        bool, typer.Option("--micro", help="Score the hardware models against micro-benchmarks instead.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compare predictions with published measured runs: the ledger."""
    if runs is not None and not runs.is_dir():
        _refuse(f"--runs {runs}: no such folder")
    if micro:
        _validate_micro(runs, as_json)
        return
    ledger: Mapping[str, Any] = sim.validate(runs).to_dict()
    if as_json:
        _print_json(ledger)
    else:
        from sim.report.terminal.validation_page import validation_page

        _print_page(validation_page(ledger))


@app.command()
def catalog(
    name: Annotated[str | None, typer.Argument(help="An entry; without it, all names.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is known: GPUs, NICs, nodes, stacks, models, each figure with its source."""
    from sim.report.terminal.catalog_page import catalog_page, entry_page

    if name is None:
        entries = [entry.to_dict() for entry in sim.catalog_entries()]
        if as_json:
            _print_json(entries)
        else:
            _print_page(catalog_page(entries))
    else:
        entry = sim.catalog_entry(name).to_dict()
        if as_json:
            _print_json(entry)
        else:
            _print_page(entry_page(entry))


@app.command()
def collective(
    op: Annotated[str, typer.Argument(help="all_reduce, all_gather, reduce_scatter, …")],
    node: Annotated[str, typer.Option(metavar="NODE", help="Node of the catalog.")],
    nodes: Annotated[int, typer.Option(metavar="N", help="Number of nodes.")] = 1,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", help="GPUs, where fewer than the node has; default: all.")
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="Software profile or its file; default: the newest.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="LIST", help="8:16G*2 (the default), 1M:8M+1M or 1K,1M,1G.")
    ] = None,
    as_json: JsonFlag = False,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Mark each size of an rccl-tests log, with likely causes."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Plot bus bandwidth against size (extra: app).")
    ] = None,
) -> None:
    """Predict the table that rccl-tests prints, or compare a log with it."""
    machine: dict[str, Any] = {"node": node, "nodes": nodes, "gpus": gpus, "stack": stack}
    if compare is not None and sizes is not None:
        _refuse("--sizes: the sizes come from the log with --compare; leave one of the two out")
    content: Mapping[str, Any]
    if compare is not None:
        content = sim.compare_collective(op, compare, **machine).to_dict()
    elif sizes is not None:
        content = sim.predict_collective(op, **machine, sizes=sizes).to_dict()
    else:
        content = sim.predict_collective(op, **machine).to_dict()
    if plot is not None:
        from sim.report.collective_plot import write_plot

        write_plot(content, plot, sim.__version__)
        typer.echo(f"plot written to {plot}", err=True)
    if as_json:
        _print_json(content)
    elif compare is not None:
        from sim.report.terminal.collective_page import comparison_page

        _print_page(comparison_page(content))
    else:
        from sim.report.terminal.collective_page import collective_table

        typer.echo(collective_table(content))


@app.command()
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
        _print_json(found.to_dict() | {"yaml": found.yaml})
        return
    from sim.report.terminal.calibration_page import calibration_page

    if output is None:
        typer.echo(found.yaml)
    _print_page(calibration_page(found.to_dict()), err=output is None)


@app.command()
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
        _require_file(scenario)
    loaded = None if scenario is None else sim.load(scenario)
    files = sim.measure_machine(what, output, scenario=loaded, device=device, seconds=seconds, quick=quick)
    for file in files:
        typer.echo(str(file))


@app.command()
def schema() -> None:
    """Print the JSON schema of scenario files, for editors."""
    _print_json(sim.json_schema())


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
        _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:  # every input error of the project is one: scenarios, names, units, plans
        located: tuple[str, ...] = getattr(error, "errors", ())  # of a scenario: file:line:column: field: ...
        if located:
            typer.echo("\n".join(located), err=True)
            raise SystemExit(BAD_INPUT) from None
        _refuse(str(error))


def _validate_micro(rows: Path | None, as_json: bool) -> None:
    report: Mapping[str, Any] = sim.validate_micro(rows).to_dict()
    if as_json:
        _print_json(report)
    else:
        from sim.report.terminal.micro_page import micro_page

        _print_page(micro_page(report))


def _require_file(path: Path) -> None:
    if path.is_dir():
        _refuse(f"{path}: is a folder; name a scenario file in it")
    if not path.exists():
        nearest = _nearest_scenarios(path)
        _refuse(f"{path}: no such file" + (f"; did you mean {nearest}?" if nearest else ""))


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


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _print_page(page: RenderableType, *, err: bool = False) -> None:
    from sim.report.terminal.console import console

    console(sys.stderr if err else sys.stdout).print(page)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise SystemExit(BAD_INPUT)


if __name__ == "__main__":
    main()
