"""A network switch: how many ports at which rate, and what a hop costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmodels.figure import Figure


@dataclass(frozen=True)
class Switch:
    """``ports`` maps a port rate (bytes/s per direction) to the number of such ports: one radix per rate.

    ``latency_s`` (one hop) and ``power_W`` are ``None`` where nobody has published them.
    """

    name: str
    title: str
    vendor: str
    asic: str
    status: str  # "shipping" or "announced"
    capacity_Bps: float  # sum over all ports, per direction
    ports: Mapping[float, int]
    latency_s: float | None
    power_W: float | None
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)
