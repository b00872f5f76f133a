"""A NIC file as a ``Nic``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmodels.node import Nic

if TYPE_CHECKING:
    from hwmodels.catalog.record import Record


def build_nic(record: Record) -> Nic:
    """Raises ``CatalogError`` for missing or unknown keys and for payload above line rate."""
    nic = Nic(
        name=record.text("name"),
        title=record.text("title"),
        vendor=record.text("vendor"),
        line_rate_Bps=record.quantity("line_rate", "bandwidth"),
        usable_bandwidth_Bps=record.quantity("usable_bandwidth", "bandwidth"),
        latency_s=record.quantity("latency", "time"),
        figures=record.figures,
    )
    record.facts()
    record.done()
    if not 0 < nic.usable_bandwidth_Bps <= nic.line_rate_Bps:
        raise record.error("usable_bandwidth", "not above 0 and at most the line rate")
    return nic
