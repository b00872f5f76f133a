"""Which figures of the stack profiles were fitted, and on which runs: the table of ``docs/models.md``.

A figure is fitted where its file says so itself: the source is ``ledger`` and the note begins with
"fitted". Where the note names runs between backticks these are the ones, else all ``fit`` runs that take the
figure. Figures that another profile inherits or copies are not listed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hwmodels import catalog
from hwmodels.catalog.files import raw
from sim.ledger.report import LedgerReport
from sim.ledger.score import read_scenario

MODELS_PAGE = "docs/models.md"
_NAMED = re.compile(r"`([^`]+)`")
BEGIN, END = "<!-- fitted:begin -->", "<!-- fitted:end -->"


def fitted_table(report: LedgerReport) -> str:
    """Markdown: profile, figure, value and the ``fit`` configurations behind it.

    Raises ``ValueError`` where a note names a run that is not one of them.
    """
    lines = ["| stack profile | figure | value | fitted on |", "| --- | --- | ---: | --- |"]
    uses = _uses(report)
    for stack in catalog.names("stack"):
        for path, figure in _fitted(stack):
            taken = uses.get((stack, path), [])
            named = _NAMED.findall(str(figure["note"]))
            if strange := sorted(set(named) - set(taken)):
                raise ValueError(f"stack {stack}: {path}: no fit run takes it: {', '.join(strange)}")
            runs = ", ".join(f"`{run}`" for run in named or taken) or "–"
            lines.append(f"| {stack} | `{path}` | {figure['value']} | {runs} |")
    return "\n".join(lines)


def with_fitted(page: str, table: str) -> str:
    """``page`` with ``table`` between the markers. Raises ``ValueError`` when they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{MODELS_PAGE} needs the markers {BEGIN} and {END}, in this order")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def write_fitted(root: Path, report: LedgerReport) -> None:
    """Rewrites the table in ``docs/models.md`` of the checkout at ``root``."""
    page = root / MODELS_PAGE
    page.write_text(with_fitted(page.read_text(encoding="utf-8"), fitted_table(report)), encoding="utf-8")


def _fitted(stack: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and content of every figure that the file of ``stack`` calls fitted."""
    for key, value in raw("stack", stack).items():
        if not isinstance(value, dict):
            continue
        figures = (
            {key: value} if "value" in value else {f"{key}.{name}": each for name, each in value.items()}
        )
        for path, figure in figures.items():
            if _is_fitted(figure):
                yield path, figure


def _is_fitted(figure: Any) -> bool:
    return (
        isinstance(figure, dict)
        and figure.get("source") == "ledger"
        and str(figure.get("note", "")).startswith("fitted")
    )


def _uses(report: LedgerReport) -> dict[tuple[str, str], list[str]]:
    """First run of every ``fit`` configuration, by the fitted figures that its stack takes."""
    uses: dict[tuple[str, str], list[str]] = {}
    for configuration in report.configurations:
        first = configuration.first
        if first.run.split != "fit":
            continue
        precision = read_scenario(first.run).training.precision
        for path in {path for stack in catalog.names("stack") for path, _ in _fitted(stack)}:
            table, _, name = path.partition(".")
            if table == "gemm_efficiency" and name != precision:
                continue
            uses.setdefault((_origin(first.stack, table, name), path), []).append(first.run.id)
    return uses


def _origin(stack: str, table: str, name: str) -> str:
    """The profile whose file states the figure that ``stack`` takes; empty where none does."""
    at: str | None = stack
    while at is not None:
        content = raw("stack", at)
        if table in content and (not name or name in content[table]):
            return at
        at = content.get("inherits")
    return ""
