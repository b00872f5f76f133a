"""What a person says about the network between nodes: its kind, its ratios, its switches.

No numpy here: a scenario may build a ``FabricSpec`` without paying for arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwmodels.switch import Switch

FABRIC_KINDS = ("non-blocking", "rail-only", "rail-clos", "clos", "dragonfly", "torus")

# Link tiers, the names by which background load and results speak of them.
SCALE_UP, GPU_NIC, NIC_LEAF = "scale-up", "gpu-nic", "nic-leaf"
LEAF_SPINE, SPINE_CORE = "leaf-spine", "spine-core"
LOCAL, GLOBAL, TORUS = "dragonfly-local", "dragonfly-global", "torus"
LINK_TIERS = (SCALE_UP, GPU_NIC, NIC_LEAF, LEAF_SPINE, SPINE_CORE, LOCAL, GLOBAL, TORUS)

TIERS_OF_KIND = {
    "non-blocking": (SCALE_UP, GPU_NIC, NIC_LEAF),
    "rail-only": (SCALE_UP, GPU_NIC, NIC_LEAF, LEAF_SPINE, SPINE_CORE),
    "rail-clos": (SCALE_UP, GPU_NIC, NIC_LEAF, LEAF_SPINE, SPINE_CORE),
    "clos": (SCALE_UP, GPU_NIC, NIC_LEAF, LEAF_SPINE, SPINE_CORE),
    "dragonfly": (SCALE_UP, GPU_NIC, NIC_LEAF, LOCAL, GLOBAL),
    "torus": (SCALE_UP, GPU_NIC, NIC_LEAF, TORUS),
}

_OWN_FIELDS = {
    "torus": ("dims",),
    "dragonfly": ("switch_nics", "group_switches", "global_links"),
}


class FabricError(ValueError):
    """A fabric that cannot be built, or a route that it does not have."""


@dataclass(frozen=True)
class FabricSpec:
    """The network between nodes.

    ``kind``: ``non-blocking`` (one ideal switch), ``rail-only`` (one network per rail, nothing between
    rails), ``rail-clos`` (leaves per rail, spines shared), ``clos`` (leaves take whole nodes), ``dragonfly``,
    ``torus`` (nodes as vertices).

    ``tiers``: switch tiers of a Clos, 1 to 3; ``None`` is the fewest that hold the cluster.
    ``oversubscription``: one ratio per tier of links, from the nodes up (NIC to leaf, leaf to spine, spine to
    core; dragonfly: NIC to switch, local, global), each the capacity that enters a switch from below over
    the capacity that leaves it upwards; ``[1, 1, 7]`` is a 3-tier network that is full up to its spines and
    1:7 above. A ratio r sets capacities so that the links above carry exactly 1/r of those below.
    ``switch`` or ``radix`` (ports at the NIC's rate) sizes the switches; with neither, a 51.2 Tbps switch is
    assumed (dragonfly: a Rosetta) and ``Fabric.assumptions`` says so. ``hop_latency_s``: one further switch
    beyond the first, which a NIC's measured latency includes.
    ``dims``: torus sizes, their product the number of nodes. ``switch_nics``, ``group_switches``,
    ``global_links`` (cables between each two groups): dragonfly; ``None`` is the balanced split of the
    radix and all global ports in use.
    ``background``: fraction of the capacity of a tier of links (``LINK_TIERS``) that other jobs take.

    Raises FabricError for values that make no network.
    """

    kind: str = "non-blocking"
    tiers: int | None = None
    oversubscription: tuple[float, ...] | None = None
    switch: Switch | None = None
    radix: int | None = None
    hop_latency_s: float | None = None
    dims: tuple[int, ...] | None = None
    switch_nics: int | None = None
    group_switches: int | None = None
    global_links: int | None = None
    background: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_kind()
        self._check_tiers()
        self._check_numbers()
        for tier, fraction in self.background.items():
            if tier not in LINK_TIERS:
                raise FabricError(f"background: no tier of links {tier!r}: {', '.join(LINK_TIERS)}")
            if not 0.0 <= fraction < 1.0:
                raise FabricError(f"background.{tier}: {fraction:g} is no fraction from 0 to below 1")

    def _check_kind(self) -> None:
        if self.kind not in FABRIC_KINDS:
            raise FabricError(f"kind: {self.kind!r} is none of {', '.join(FABRIC_KINDS)}")
        for kind, names in _OWN_FIELDS.items():
            for name in names:
                if kind != self.kind and getattr(self, name) is not None:
                    raise FabricError(f"{name}: belongs to a {kind}, this fabric is {self.kind}")
        if self.kind == "torus" and not self.dims:
            raise FabricError(
                "dims: a torus needs the number of nodes along each dimension, such as [4, 4, 8]"
            )

    def _check_tiers(self) -> None:
        clos = self.kind in {"rail-only", "rail-clos", "clos"}
        if self.tiers is not None and not (clos and 1 <= self.tiers <= 3):
            raise FabricError(f"tiers: {self.tiers} for {self.kind}: a Clos has 1, 2 or 3")
        ratios = self.oversubscription
        if ratios is None:
            return
        if any(not ratio >= 1.0 or math.isinf(ratio) for ratio in ratios):
            raise FabricError(f"oversubscription: {list(ratios)}: each ratio is 1 or more")
        if not clos and self.kind != "dragonfly":
            if any(ratio != 1.0 for ratio in ratios):
                raise FabricError(f"oversubscription: a {self.kind} fabric has none")
            return
        due = 3 if self.kind == "dragonfly" else self.tiers
        if len(ratios) != due and not (due is None and 1 <= len(ratios) <= 3):
            raise FabricError(
                f"oversubscription: {len(ratios)} entries for {due or '1 to 3'} tiers: one per tier of links, "
                "from the nodes up"
            )

    def _check_numbers(self) -> None:
        counts = {
            "radix": (self.radix, 2),
            "switch_nics": (self.switch_nics, 1),
            "group_switches": (self.group_switches, 1),
            "global_links": (self.global_links, 1),
            **{f"dims[{i}]": (size, 1) for i, size in enumerate(self.dims or ())},
        }
        for name, (value, least) in counts.items():
            if value is not None and value < least:
                raise FabricError(f"{name}: {value} is less than {least}")
        if self.hop_latency_s is not None and not self.hop_latency_s >= 0.0:
            raise FabricError(f"hop_latency_s: {self.hop_latency_s} is less than 0")
