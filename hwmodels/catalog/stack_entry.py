"""A stack file as a ``StackProfile``.

The keys are the fields of ``StackProfile``; fields that end in ``_s`` are written without it and with
a unit (``kernel_gap: {value: "5 us", …}``), fields with ``bytes`` in their name may carry one too
(``"30 B"``). What a profile leaves out comes from the profile it ``inherits``, figure by figure (a list as a whole).
Fields with a default may be left out altogether.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from hwmodels.stack import StackProfile

if TYPE_CHECKING:
    from hwmodels.catalog.record import Record


def build_stack(record: Record) -> StackProfile:
    """Raises ``CatalogError`` for keys missing after inheritance and for unknown ones."""
    values: dict[str, Any] = {
        "name": record.text("name"),
        "title": record.text("title"),
        "date": record.day("date"),
        "gpus": record.texts("gpus"),
        "inherits": record.text("inherits") if "inherits" in record else None,
        "tuned": record.flag("tuned"),
    }
    for field in fields(StackProfile):
        written = field.name.removesuffix("_s")
        optional = not (field.default is field.default_factory is MISSING) and written not in record
        if field.name not in values and field.name != "figures" and not optional:
            values[field.name] = _read(record, field.name, str(field.type))
    record.facts()
    record.done()
    return StackProfile(**values, figures=record.figures)


def _read(record: Record, name: str, annotation: str) -> object:
    """The value of one field of ``StackProfile``, by its annotation."""
    if annotation.startswith("Mapping"):
        return _table(record.section(name), whole="int" in annotation)
    if annotation == "bool":
        word = record.choice(name)
        if word not in ("true", "false"):
            raise record.error(name, f"{word!r} is neither true nor false")
        return word == "true"
    if annotation == "int":
        return record.count(name)
    if name.endswith("_s"):
        return record.quantity(name.removesuffix("_s"), "time")
    return record.quantity(name, "number", "bytes") if "bytes" in name else record.quantity(name, "number")


def _table(section: Record, *, whole: bool) -> dict[str, float]:
    dimensions = ("number", "bytes", "time")
    return {key: section.count(key) if whole else section.quantity(key, *dimensions) for key in section}
