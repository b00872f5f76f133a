"""Bus bandwidth against message size, log-log: predicted, and measured where a log was compared.

Works on the JSON form of ``sim collective --json``; plotly is imported only when a figure is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

PREDICTED = "#0072B2"
VERDICTS = {
    "normal": ("#009E73", "circle"),
    "low": ("#D55E00", "triangle-down"),
    "suspicious": ("#CC79A7", "x"),
}
"""Colour and mark of each verdict: told apart without colours too."""


class MissingPlotly(ValueError):
    """The optional extra ``app`` is not installed."""


def write_plot(content: Mapping[str, Any], path: Path, version: str) -> None:
    """A page that needs no network: plotly.js, about 5 MB, lies within. Raises ``MissingPlotly``, ``OSError``."""
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError:
        raise MissingPlotly("--plot needs plotly: pip install 'trainsim[app]'") from None
    rows = content["rows"]
    figure = go.Figure()
    figure.add_scatter(
        x=[row["size_bytes"] for row in rows],
        y=[row["busbw_Bps"] / 1e9 for row in rows],
        mode="lines",
        name="predicted",
        line={"color": PREDICTED},
    )
    for verdict, (colour, symbol) in VERDICTS.items():
        found = [row for row in rows if row.get("verdict") == verdict]
        if found:
            figure.add_scatter(
                x=[row["size_bytes"] for row in found],
                y=[row["measured_busbw_Bps"] / 1e9 for row in found],
                mode="markers",
                name=f"measured, {verdict}",
                marker={"color": colour, "symbol": symbol, "size": 9},
                text=[", ".join(row["causes"]) for row in found],
            )
    figure.update_layout(
        title=escape(f"{content['collective']} on {content['ranks']} x {content['gpu']} ({content['node']})"),
        xaxis={"type": "log", "title": "message size (bytes)", "dtick": 1, "exponentformat": "SI"},
        yaxis={"type": "log", "title": "bus bandwidth (GB/s)", "exponentformat": "power"},
        annotations=[_footer(content, version)],
        margin={"b": 100},
    )
    path.write_text(figure.to_html(include_plotlyjs=True, full_html=True), encoding="utf-8")


def _footer(content: Mapping[str, Any], version: str) -> dict[str, Any]:
    words = f"trainsim {version} · {content['node']} x {content['nodes']} · {content['stack']} ({content['stack_date']})"
    return {
        "text": escape(words), "xref": "paper", "yref": "paper", "x": 0, "y": -0.17, "showarrow": False,
        "xanchor": "left", "font": {"size": 10},
    }  # fmt: skip
