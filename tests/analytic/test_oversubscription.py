"""A ratio r slows symmetric traffic across its tier by exactly r, and leaves all other traffic alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwmodels import catalog
from hwmodels.fabric import build_fabric
from hwmodels.fabric_spec import FabricSpec
from hwmodels.routing import Flows, Routing, route

MI300X = catalog.node("mi300x-8x400g")
NIC_Bps = MI300X.nic.usable_bandwidth_Bps
RATIOS = [1, 1.5, 2, 3, 7]


def shifted_rates(spec: FabricSpec, nodes: int, shift: int) -> np.ndarray:
    """Rates when every GPU sends to the one ``shift`` GPUs on, sprayed."""
    fabric = build_fabric(MI300X, nodes, spec)
    gpu = np.arange(fabric.gpus)
    return route(fabric, Flows.of(gpu, np.roll(gpu, -shift)), Routing("spray")).rates_Bps()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("kind", ["clos", "rail-only"])
def test_leaf_to_spine(kind: str, ratio: float) -> None:
    spec = FabricSpec(kind, radix=64, oversubscription=(1, ratio))
    fabric = build_fabric(MI300X, 200, spec)
    network = fabric.scale_out
    assert network is not None
    leaf = network.access_switches(fabric.nic_of(np.arange(fabric.gpus)))
    full = np.bincount(leaf).max()
    nodes = int(full) * 4 // (8 if kind == "clos" else 1)  # four full leaves, in each rail
    shift = nodes * 8 // 4
    assert shifted_rates(spec, nodes, shift) == pytest.approx(NIC_Bps / ratio, rel=1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
def test_spine_to_core(ratio: float) -> None:
    """Leaves of 8 nodes' NICs; pods as large as the split of the spine's 128 ports says."""
    spec = FabricSpec("clos", radix=128, tiers=3, oversubscription=(1, 1, ratio))
    pod = 8 * int(128 * ratio / (1 + ratio))  # nodes
    inside = shifted_rates(spec, 2 * pod, 64)
    assert np.median(inside) == pytest.approx(NIC_Bps, rel=1e-12)
    assert shifted_rates(spec, 2 * pod, pod * 8) == pytest.approx(NIC_Bps / ratio, rel=1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
def test_nic_to_leaf(ratio: float) -> None:
    spec = FabricSpec("clos", radix=64, tiers=2, oversubscription=(ratio, 1))
    assert shifted_rates(spec, 8, 32) == pytest.approx(NIC_Bps / ratio, rel=1e-12)


@pytest.mark.parametrize("ratio", [2, 3, 7])
def test_dragonfly_global_links(ratio: float) -> None:
    """Uniform traffic between all groups. Each group of 8 switches has 4 NICs a switch: 32 GPUs."""
    spec = FabricSpec("dragonfly", radix=16, oversubscription=(1, 1, ratio), global_links=8)
    fabric = build_fabric(MI300X, 5 * 4, spec)
    gpu = np.arange(fabric.gpus)
    flows = Flows.of(np.tile(gpu, 4), np.concatenate([np.roll(gpu, -32 * k) for k in range(1, 5)]))
    rates = route(fabric, flows, Routing("spray")).rates_Bps()
    assert np.bincount(flows.source, rates) == pytest.approx(NIC_Bps / ratio, rel=1e-9)


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.9])
def test_background_load_leaves_the_rest(fraction: float) -> None:
    spec = FabricSpec("clos", radix=16, tiers=2)
    loaded = replace(spec, background={"leaf-spine": fraction})
    assert shifted_rates(loaded, 8, 32) == pytest.approx(NIC_Bps * (1 - fraction), rel=1e-12)
    assert shifted_rates(spec, 8, 32) == pytest.approx(NIC_Bps, rel=1e-12)


def test_a_lone_flow_needs_its_latency_and_its_bytes_over_the_nic() -> None:
    """The uncontended graph cost is the closed form of a send."""
    routes = route(build_fabric(MI300X, 2), Flows.of(0, 8, 1e9))
    seconds = routes.latency_s + 1e9 / routes.rates_Bps()
    assert seconds == pytest.approx(MI300X.nic.latency_s + 1e9 / NIC_Bps, rel=1e-12)
