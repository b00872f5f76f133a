"""Catalog entries as plain rows for display: no objects to know, one row per figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmodels import catalog
from hwmodels.catalog.errors import UnknownName, nearest_first

if TYPE_CHECKING:
    from hwmodels.figure import Figure


@dataclass(frozen=True)
class Row:
    """One figure: ``value`` as its author wrote it, ``unit`` taken apart ("" for texts and counts)."""

    path: str
    value: str
    unit: str
    source: str
    confidence: str
    note: str


@dataclass(frozen=True)
class Heading:
    """One line of the listing. ``remark`` says what is special: announced, untuned, assumed figures."""

    kind: str
    name: str
    title: str
    remark: str


def listing() -> tuple[Heading, ...]:
    """All entries of the catalog, kind by kind."""
    return tuple(_heading(kind, name) for kind in catalog.KINDS for name in catalog.names(kind))


def kinds_of(name: str) -> tuple[str, ...]:
    """The kinds that have an entry ``name``. Raises ``UnknownName`` when there is none."""
    kinds = tuple(kind for kind in catalog.KINDS if name in catalog.names(kind))
    if not kinds:
        known = sorted({known for kind in catalog.KINDS for known in catalog.names(kind)})
        raise UnknownName("catalog entry", name, nearest_first(name, known), _refusal(name))
    return kinds


def rows(kind: str, name: str) -> tuple[Row, ...]:
    """Every figure of one entry, in the order of its file."""
    entry = catalog.entry(kind, name)
    return tuple(_row(path, figure) for path, figure in entry.figures.items())


def _heading(kind: str, name: str) -> Heading:
    entry = catalog.entry(kind, name)
    remarks = []
    if getattr(entry, "status", "shipping") != "shipping":
        remarks.append("announced")
    if not getattr(entry, "tuned", True):
        remarks.append("untuned")
    assumed = sum(figure.confidence == "assumed" for figure in entry.figures.values())
    if assumed:
        remarks.append(f"{assumed} of {len(entry.figures)} figures assumed")
    return Heading(kind, name, entry.title, ", ".join(remarks))


def _row(path: str, figure: Figure) -> Row:
    number, _, unit = figure.text.partition(" ")
    measured = unit and number[:1].isdigit() and figure.value == figure.value  # a text has value nan
    value, unit = (number, unit) if measured else (figure.text, "")
    return Row(path, value, unit, figure.source, figure.confidence, figure.note)


def _refusal(name: str) -> str:
    """What the catalog says about a name it refuses, such as a package for its GPUs."""
    for kind in catalog.KINDS:
        if catalog.names(kind):
            try:
                catalog.entry(kind, name)
            except UnknownName as error:
                if error.hint:
                    return error.hint
    return ""
