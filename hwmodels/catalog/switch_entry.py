"""A switch file as a ``Switch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmodels.catalog.gpu_entry import read_status
from hwmodels.switch import Switch
from hwmodels.units import parse

if TYPE_CHECKING:
    from hwmodels.catalog.record import Record


def build_switch(record: Record) -> Switch:
    """Raises ``CatalogError`` for missing or unknown keys and for more ports than capacity."""
    switch = Switch(
        name=record.text("name"),
        title=record.text("title"),
        vendor=record.text("vendor"),
        asic=record.text("asic"),
        status=read_status(record),
        capacity_Bps=record.quantity("capacity", "bandwidth"),
        ports=_ports(record),
        latency_s=record.quantity("latency", "time") if "latency" in record else None,
        power_W=record.quantity("power", "power") if "power" in record else None,
        figures=record.figures,
    )
    record.facts()
    record.done()
    for rate, count in switch.ports.items():
        if rate * count > switch.capacity_Bps * 1.001:  # 0.1 %: 51.2 Tbps is a rounded sum
            raise record.error("ports", f"{count} ports of {rate:g} bytes/s exceed the capacity")
    return switch


def _ports(record: Record) -> dict[float, int]:
    section = record.section("ports")
    return {parse(rate, "bandwidth"): section.count(rate) for rate in section}
