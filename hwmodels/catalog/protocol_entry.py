"""The file of collective protocols as ``Protocols``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmodels.protocol import AcrossProtocol, InsideProtocol, Protocols

if TYPE_CHECKING:
    from hwmodels.catalog.record import Record


def build_protocols(record: Record) -> Protocols:
    """Raises ``CatalogError`` for missing or unknown keys."""
    inside, across = record.section("inside"), record.section("across")
    built = Protocols(
        tuple(_inside(name, inside.section(name)) for name in inside),
        tuple(_across(name, across.section(name)) for name in across),
        record.figures,
    )
    record.done()
    return built


def _inside(name: str, record: Record) -> InsideProtocol:
    protocol = InsideProtocol(
        name,
        record.quantity("bandwidth", "number"),
        record.quantity("floors", "number"),
        record.quantity("halves", "number"),
    )
    record.done()
    return protocol


def _across(name: str, record: Record) -> AcrossProtocol:
    protocol = AcrossProtocol(
        name, record.quantity("bandwidth", "number"), record.quantity("latency", "time")
    )
    record.done()
    return protocol
