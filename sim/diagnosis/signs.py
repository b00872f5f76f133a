"""Facts about faults: what each looks like, with sources (``signs.yaml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwmodels.catalog.files import citations
from hwmodels.catalog.record import Record, read_yaml

_FILE = Path(__file__).with_name("signs.yaml")
Span = tuple[float, float]


@dataclass(frozen=True)
class Signs:
    """Ranges (low, high) in SI units."""

    tcp_bus_bandwidth_Bps: Span
    pcie_bus_bandwidth_Bps: Span
    single_process_floor_s: Span
    low_latency_share: Span  # of normal bandwidth, inside a scale-up domain
    low_latency_share_across: Span  # the same across nodes


@cache
def signs() -> Signs:
    content = read_yaml(_FILE)
    record = Record(content, _FILE.name, citations(content.pop("sources"), _FILE.name))

    def span(key: str, dimension: str) -> Span:
        section = record.section(key)
        return section.quantity("low", dimension), section.quantity("high", dimension)

    return Signs(
        tcp_bus_bandwidth_Bps=span("tcp_bus_bandwidth", "bandwidth"),
        pcie_bus_bandwidth_Bps=span("pcie_bus_bandwidth", "bandwidth"),
        single_process_floor_s=span("single_process_floor", "time"),
        low_latency_share=span("low_latency_share", "number"),
        low_latency_share_across=span("low_latency_share_across", "number"),
    )
