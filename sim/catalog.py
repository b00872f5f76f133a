"""One index over everything that has a name: hardware, software stacks, models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from hwmodels.catalog.describe import kinds_of, listing, rows
from hwmodels.catalog.errors import UnknownName, nearest_first
from sim.workload.catalog import architecture, architecture_names, model_names, recommender, recommender_names

_NOT_FIGURES = ("name", "title", "source", "published_parameters")


@dataclass(frozen=True)
class CatalogFigure:
    """One sourced figure of an entry; ``value`` is as its author wrote it, with its unit."""

    figure: str
    value: str
    source: str
    confidence: str
    note: str = ""


@dataclass(frozen=True)
class CatalogEntry:
    """One name. ``figures`` is empty in a listing. ``remark`` says what is special (announced, untuned, …)."""

    kind: str
    name: str
    title: str
    remark: str = ""
    figures: tuple[CatalogFigure, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"figures": [asdict(figure) for figure in self.figures]}


def catalog_entries() -> tuple[CatalogEntry, ...]:
    """All entries without their figures, kind by kind."""
    hardware = tuple(CatalogEntry(h.kind, h.name, h.title, h.remark) for h in listing())
    return hardware + tuple(CatalogEntry("model", name, _titled(name)) for name in model_names())


def catalog_entry(name: str) -> CatalogEntry:
    """The entry called ``name`` with its figures.

    Raises ``UnknownName``, which lists known names, the nearest first.
    """
    if name in architecture_names():
        return _model(name)
    if name in recommender_names():
        return _recommender(name)
    try:
        kind = kinds_of(name)[0]
    except UnknownName as unknown:
        known = [entry.name for entry in catalog_entries()]
        raise UnknownName("catalog entry", name, nearest_first(name, known), unknown.hint) from None
    heading = next(entry for entry in catalog_entries() if (entry.kind, entry.name) == (kind, name))
    figures = tuple(
        CatalogFigure(row.path, f"{row.value} {row.unit}".strip(), row.source, row.confidence, row.note)
        for row in rows(kind, name)
    )
    return CatalogEntry(kind, name, heading.title, heading.remark, figures)


def _titled(name: str) -> str:
    return recommender(name).title if name in recommender_names() else architecture(name).title


def _recommender(name: str) -> CatalogEntry:
    """Dense layers, then every table, then the counts that follow from them."""
    found = recommender(name)
    own = [field.name for field in fields(found) if field.name not in (*_NOT_FIGURES, "tables")]
    figures = [CatalogFigure(field, str(getattr(found, field)), found.source, "high") for field in own]
    for table in found.tables:
        looked_up = f"{table.lookups:g} lookups per {'position' if table.sequence else 'sample'}"
        value = f"{table.rows:,} x {table.dim}, {looked_up}"
        figures.append(CatalogFigure(f"table {table.name}", value, found.source, "high"))
    for what, count in (
        ("table_parameters", found.table_parameters),
        ("dense_parameters", found.dense_parameters),
    ):
        figures.append(CatalogFigure(what, f"{count:,}", "follows from the above", "derived"))
    return CatalogEntry("model", name, found.title, "recommender", tuple(figures))


def _model(name: str) -> CatalogEntry:
    """A model's published configuration, with the parameter count that follows from it."""
    found = architecture(name)
    figures = [
        CatalogFigure(field.name, str(getattr(found, field.name)), found.source, "high")
        for field in fields(found)
        if field.name not in _NOT_FIGURES
    ]
    published = found.published_parameters
    note = f"published: {published:,.0f}" if published else ""
    figures.append(
        CatalogFigure("parameters", f"{found.parameters:,}", "follows from the above", "derived", note)
    )
    return CatalogEntry("model", name, found.title, "", tuple(figures))
