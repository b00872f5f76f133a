"""A server: GPUs, the links between them, and the NICs that leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwmodels.figure import Figure
from hwmodels.gpu import Gpu


@dataclass(frozen=True)
class ScaleUp:
    """The fast links inside one scale-up domain.

    ``kind`` is ``mesh`` (one link per pair), ``switch`` (any pair at full rate), ``uneven-mesh`` or
    ``bus`` (the host's PCIe tree, priced as a slow switch: what it carries depends on the box).
    Bandwidths are per direction. ``usable_bandwidth_Bps`` is what collectives reach per link (mesh)
    or per GPU (switch). ``bus_bandwidth_Bps`` holds measured bus bandwidth by group size where a
    uniform model does not hold (uneven mesh), ``pair_links`` its links between GPUs i < j of a domain.
    """

    kind: str
    domain_gpus: int
    links_per_gpu: int
    link_bandwidth_Bps: float
    usable_bandwidth_Bps: float
    latency_s: float  # floor of a small all-reduce over one node
    half_bandwidth_bytes: float  # all-reduce over one node that reaches half of its plateau
    bus_bandwidth_Bps: Mapping[int, float] = field(default_factory=dict)
    in_switch_bandwidth_Bps: float = (
        0.0  # buffer bytes per second of an all-reduce that the switch adds; 0: none
    )
    pair_links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    exchange_bandwidth_Bps: float = 0.0  # of an all-to-all, per GPU, where it is not that of rings


@dataclass(frozen=True)
class Nic:
    """One network port group. ``usable_bandwidth_Bps`` is measured payload rate per direction."""

    name: str
    title: str
    vendor: str
    line_rate_Bps: float
    usable_bandwidth_Bps: float
    latency_s: float
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Node:
    """``gpus`` accelerators of one type with ``nics`` ports between them."""

    name: str
    title: str
    gpu: Gpu
    gpus: int
    scale_up: ScaleUp
    nic: Nic
    nics: int
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False, compare=False)

    @property
    def nic_bandwidth_per_gpu_Bps(self) -> float:
        """Usable scale-out bandwidth of one GPU's share of the node's NICs, bytes/s per direction."""
        return self.nic.usable_bandwidth_Bps * self.nics / self.gpus
