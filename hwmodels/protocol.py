"""Protocols of a collective library: shares of bandwidth bought with latency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwmodels.figure import Figure


@dataclass(frozen=True)
class InsideProtocol:
    """Inside a domain: ``floors`` times the node's floor plus ``halves`` times its half-bandwidth wire time."""

    name: str
    bandwidth: float  # share of the plateau
    floors: float
    halves: float


@dataclass(frozen=True)
class AcrossProtocol:
    """Across domains: latency of an all-reduce over two of them."""

    name: str
    bandwidth: float
    latency_s: float


@dataclass(frozen=True)
class Protocols:
    """What a library may choose from, inside a scale-up domain and across domains."""

    inside: tuple[InsideProtocol, ...]
    across: tuple[AcrossProtocol, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)
