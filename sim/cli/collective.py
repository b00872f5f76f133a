"""``sim collective``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sim
from sim.cli.output import JsonFlag, print_json, print_page, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        refuse("--sizes: the sizes come from the log with --compare; leave one of the two out")
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
        print_json(content)
    elif compare is not None:
        from sim.report.terminal.collective_page import comparison_page

        print_page(comparison_page(content))
    else:
        from sim.report.terminal.collective_page import collective_table

        typer.echo(collective_table(content))
