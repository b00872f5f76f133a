"""Graphs: how many links of which tier, who is joined to whom, and what a spec refuses."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from hwmodels import catalog
from hwmodels.fabric import Fabric, build_fabric
from hwmodels.fabric_spec import LINK_TIERS, TIERS_OF_KIND, FabricError, FabricSpec
from hwmodels.routing import Flows, Routing, route

MI300X = catalog.node("mi300x-8x400g")
MI250X = catalog.node("mi250x-8gcd-4x200g")


def links_on(fabric: Fabric, tier: str) -> int:
    return int(fabric.on_tier(tier).sum())


def path(fabric: Fabric, source: int, target: int, routing: Routing | None = None) -> list[str]:
    """Names of the nodes on the way of one flow, joined link by link."""
    links = route(fabric, Flows.of(source, target), routing).resource.tolist()
    nodes = [fabric.node_name(int(fabric.source[links[0]]))]
    for link in links:
        start, _, end = fabric.link_name(link).partition(" -> ")
        assert start == nodes[-1]
        nodes.append(end)
    return nodes


def every_path_is_connected(fabric: Fabric, source: np.ndarray, target: np.ndarray, routing: Routing) -> None:
    """Each link of a single-path route begins where the one before ended, from GPU to GPU."""
    routes = route(fabric, Flows.of(source, target), routing)
    for flow in range(len(routes)):
        links = routes.resource[routes.start[flow] : routes.start[flow + 1]]
        assert fabric.source[links[0]] == source[flow]
        assert fabric.target[links[-1]] == target[flow]
        assert (fabric.source[links[1:]] == fabric.target[links[:-1]]).all()


def test_mesh_has_one_link_per_pair_and_direction() -> None:
    fabric = build_fabric(MI300X, 2)
    assert links_on(fabric, "scale-up") == 2 * 8 * 7
    assert links_on(fabric, "gpu-nic") == links_on(fabric, "nic-leaf") == 2 * 16
    assert (fabric.capacity_Bps[fabric.on_tier("scale-up")] == MI300X.scale_up.usable_bandwidth_Bps).all()
    assert path(fabric, 9, 14) == ["gpu 9", "gpu 14"]


@pytest.mark.parametrize(("group", "links"), [(2, 1), (4, 3), (8, 7)])
def test_a_group_of_mi300x_has_one_link_per_peer(group: int, links: int) -> None:
    fabric = build_fabric(MI300X, 1)
    gpu = np.arange(group)
    source, target = (axis.ravel() for axis in np.meshgrid(gpu, gpu, indexing="ij"))
    apart = source != target
    rates = route(fabric, Flows.of(source[apart], target[apart])).rates_Bps()
    leaving = np.bincount(source[apart], rates)
    assert leaving == pytest.approx(links * MI300X.scale_up.usable_bandwidth_Bps)


@pytest.mark.parametrize("name", ["h200-8x400g", "b200-8x400g"])
@pytest.mark.parametrize("group", [2, 4, 8])
def test_a_switch_gives_every_group_the_full_port(name: str, group: int) -> None:
    node = catalog.node(name)
    gpu = np.arange(group)
    source, target = (axis.ravel() for axis in np.meshgrid(gpu, gpu, indexing="ij"))
    apart = source != target
    rates = route(build_fabric(node, 1), Flows.of(source[apart], target[apart])).rates_Bps()
    assert np.bincount(source[apart], rates) == pytest.approx(node.scale_up.usable_bandwidth_Bps)


def test_mi250x_packages_have_four_links_and_others_one_or_two() -> None:
    fabric = build_fabric(MI250X, 1)
    link = 130e9 / 4  # the two GCDs of a package reach 130 GB/s over four links
    capacity = {
        (int(fabric.source[i]), int(fabric.target[i])): fabric.capacity_Bps[i] / link
        for i in np.flatnonzero(fabric.on_tier("scale-up"))
    }
    assert {pair: round(width) for pair, width in capacity.items() if pair[0] < pair[1]} == {
        **dict.fromkeys([(0, 1), (2, 3), (4, 5), (6, 7)], 4),
        **dict.fromkeys([(0, 6), (2, 4)], 2),
        **dict.fromkeys([(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)], 1),
    }
    assert all(capacity[pair] == capacity[pair[::-1]] for pair in capacity)


def test_unconnected_gcds_reach_each_other_over_the_widest_two_hops() -> None:
    fabric = build_fabric(MI250X, 2)
    assert path(fabric, 0, 7) == ["gpu 0", "gpu 6", "gpu 7"]
    assert path(fabric, 0, 4) == ["gpu 0", "gpu 2", "gpu 4"]  # as wide as over 6: the lower number
    assert path(fabric, 8, 15) == ["gpu 8", "gpu 14", "gpu 15"]
    pairs = [(i, j) for i in range(8) for j in range(8) if i != j]
    assert max(len(path(fabric, i, j)) for i, j in pairs) == 3


def test_two_gcds_share_a_nic() -> None:
    fabric = build_fabric(MI250X, 2)
    assert fabric.nic_of(np.arange(16)).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    rates = route(fabric, Flows.of([0, 1, 2], [8, 9, 10])).rates_Bps()
    assert rates == pytest.approx([12.5e9, 12.5e9, 25e9])


def test_several_nics_of_a_gpu_act_as_one() -> None:
    node = replace(MI300X, nics=16)
    rates = route(build_fabric(node, 2), Flows.of(0, 8)).rates_Bps()
    assert rates == pytest.approx(2 * node.nic.usable_bandwidth_Bps)


@pytest.mark.parametrize("domain", [8, 72, 144])
def test_a_switch_domain_spans_trays(domain: int) -> None:
    tray = catalog.node("gb200-nvl72")
    node = replace(tray, scale_up=replace(tray.scale_up, domain_gpus=domain))
    fabric = build_fabric(node, 2 * domain // 4)
    assert path(fabric, 0, domain - 1) == ["gpu 0", "scale-up switch 0", f"gpu {domain - 1}"]
    assert len(path(fabric, 0, domain)) == 5  # gpu, nic, switch, nic, gpu
    assert dict(fabric.node_counts)["scale-up switch"] == 2


def test_a_last_domain_may_be_partly_filled() -> None:
    fabric = build_fabric(catalog.node("gb200-nvl72"), 20)
    assert path(fabric, 72, 79) == ["gpu 72", "scale-up switch 1", "gpu 79"]


def test_path_lengths_grow_with_the_tiers_crossed() -> None:
    # Radix 16: leaves of 8 NICs (one node), pods of 8 leaves (64 GPUs).
    fabric = build_fabric(MI300X, 16, FabricSpec("clos", tiers=3, radix=16))
    lengths = [len(path(fabric, 0, target)) - 1 for target in (1, 8, 64)]
    assert lengths == [1, 6, 8]
    wider = build_fabric(MI300X, 16, FabricSpec("clos", tiers=2, radix=32))
    assert [len(path(wider, 0, target)) - 1 for target in (8, 16)] == [4, 6]
    assert path(wider, 3, 12) == ["gpu 3", "nic 3", "leaf 0", "nic 12", "gpu 12"]


def test_latency_adds_one_hop_per_further_switch() -> None:
    fabric = build_fabric(MI300X, 16, FabricSpec("clos", tiers=3, radix=16, hop_latency_s=1e-6))
    latency = route(fabric, Flows.of(0, [1, 8, 64])).latency_s
    nic = MI300X.nic.latency_s
    assert latency == pytest.approx([MI300X.scale_up.latency_s / 2, nic + 2e-6, nic + 4e-6])
    flat = build_fabric(MI300X, 16)
    assert route(flat, Flows.of(0, 64)).latency_s == pytest.approx(nic)


def test_rail_clos_keeps_a_rail_on_one_leaf() -> None:
    fabric = build_fabric(MI300X, 8, FabricSpec("rail-clos", tiers=2, radix=32))
    assert path(fabric, 3, 59) == ["gpu 3", "nic 3", "leaf 3", "nic 59", "gpu 59"]
    assert len(path(fabric, 3, 60)) - 1 == 6
    assert path(fabric, 3, 60, Routing(pxn=True)) == ["gpu 3", "gpu 4", "nic 4", "leaf 4", "nic 60", "gpu 60"]


def test_rail_only_has_nothing_between_rails() -> None:
    fabric = build_fabric(MI300X, 8, FabricSpec("rail-only", radix=64))
    assert path(fabric, 3, 59) == ["gpu 3", "nic 3", "leaf 3", "nic 59", "gpu 59"]
    with pytest.raises(FabricError, match="rails do not meet in this network: route with pxn"):
        route(fabric, Flows.of(3, 60))
    assert path(fabric, 3, 60, Routing(pxn=True))[:3] == ["gpu 3", "gpu 4", "nic 4"]


def test_a_large_rail_only_network_is_a_clos_per_rail() -> None:
    fabric = build_fabric(MI300X, 128, FabricSpec("rail-only", radix=64))
    assert fabric.node_counts[3:] == (("leaf", 8 * 4), ("spine", 8 * 32), ("core", 0))
    gpu = np.arange(fabric.gpus)
    every_path_is_connected(fabric, gpu, np.roll(gpu, -320), Routing(pxn=True))


@pytest.mark.parametrize(
    "spec",
    [
        FabricSpec(),
        FabricSpec("clos", radix=16),
        FabricSpec("clos", tiers=3, radix=16, oversubscription=(1, 1, 2)),
        FabricSpec("rail-clos", tiers=3, radix=32, oversubscription=(1, 2, 3)),
        FabricSpec("dragonfly", radix=16),
        FabricSpec("torus", dims=(2, 3, 4)),
    ],
    ids=lambda spec: spec.kind,
)
@pytest.mark.parametrize("mode", ["ecmp", "adaptive"])
def test_routes_are_chains_of_links_from_gpu_to_gpu(spec: FabricSpec, mode: str) -> None:
    fabric = build_fabric(MI300X, 24, spec)
    rng = np.random.default_rng(1)
    source = rng.integers(0, fabric.gpus, 400)
    target = (source + rng.integers(1, fabric.gpus, 400)) % fabric.gpus
    for pxn in (False, True):
        every_path_is_connected(fabric, source, target, Routing(mode, pxn=pxn))
    if spec.kind == "dragonfly":
        every_path_is_connected(fabric, source, target, Routing(mode, non_minimal=True))


def test_tiers_are_as_few_as_hold_the_cluster() -> None:
    leaves = [
        dict(build_fabric(MI300X, nodes, FabricSpec("clos", radix=16)).node_counts) for nodes in (2, 16, 100)
    ]
    assert [(count["leaf"], count["spine"], count["core"]) for count in leaves] == [
        (1, 0, 0),
        (16, 8, 0),
        (100, 13 * 8, 64),
    ]


def test_uplinks_follow_the_ratio_where_cables_are_whole() -> None:
    fabric = build_fabric(MI300X, 128, FabricSpec("clos", tiers=3, radix=64, oversubscription=(1, 1, 7)))
    nic_Bps = MI300X.nic.usable_bandwidth_Bps
    # 32 down, 32 up at the leaf; 56 down, 8 up at the spine.
    assert links_on(fabric, "leaf-spine") == 2 * 32 * 32
    assert fabric.capacity_Bps[fabric.on_tier("leaf-spine")] == pytest.approx(nic_Bps)
    below, above = (fabric.capacity_Bps[fabric.on_tier(tier)].sum() for tier in ("leaf-spine", "spine-core"))
    assert below / above == pytest.approx(7)


def test_frontier_dragonfly_has_groups_of_128_nodes() -> None:
    fabric = build_fabric(MI250X, 1024, FabricSpec("dragonfly", switch=catalog.switch("slingshot-rosetta")))
    assert dict(fabric.node_counts)["router"] == 8 * 32  # 16 NICs each: 8 groups of 512 NICs
    # 17 global ports x 32 switches over 7 other groups.
    assert links_on(fabric, "dragonfly-global") == 8 * 7 * (17 * 32 // 7)
    assert links_on(fabric, "dragonfly-local") == 8 * 32 * 31
    assert fabric.assumptions == ()


def test_no_switch_of_a_dragonfly_has_more_cables_than_ports() -> None:
    fabric = build_fabric(MI250X, 1024, FabricSpec("dragonfly", radix=64))
    first = sum(count for kind, count in fabric.node_counts if kind != "router")
    ports = np.bincount(fabric.source[fabric.source >= first] - first)
    assert ports.max() <= 64


def test_torus_neighbours_share_the_nodes_nics() -> None:
    fabric = build_fabric(MI300X, 24, FabricSpec("torus", dims=(2, 3, 4)))
    assert links_on(fabric, "torus") == 24 * 6
    cable = 8 * MI300X.nic.usable_bandwidth_Bps / 6
    assert fabric.capacity_Bps[fabric.on_tier("torus")] == pytest.approx(cable)
    # Node (0, 0, 0) to node (1, 1, 2): 1 + 1 + 2 cables, 4 links to GPUs and NICs.
    assert len(path(fabric, 0, (12 + 4 + 2) * 8)) - 1 == 4 + 4


def test_assumptions_are_said() -> None:
    fabric = build_fabric(MI300X, 8, FabricSpec("rail-clos"))
    assert [line.split(":")[0] for line in fabric.assumptions] == ["switches", "hop_latency_s"]
    assert build_fabric(MI300X, 8).assumptions == ()


def test_faster_ports_are_broken_out() -> None:
    sn5600 = catalog.switch("sn5600")  # 64 ports of 800 Gbps: 128 of 400
    fabric = build_fabric(MI300X, 16, FabricSpec("clos", switch=sn5600))
    assert dict(fabric.node_counts)["leaf"] == 1


def test_background_load_takes_its_fraction_of_one_tier() -> None:
    spec = FabricSpec("clos", radix=16, background={"leaf-spine": 0.25})
    fabric = build_fabric(MI300X, 16, spec)
    taken = 1.0 - fabric.available_Bps / fabric.capacity_Bps
    assert taken[fabric.on_tier("leaf-spine")] == pytest.approx(0.25)
    assert taken[~fabric.on_tier("leaf-spine")] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "fat-tree"}, r"kind: 'fat-tree' is none of non-blocking, rail-only"),
        ({"kind": "clos", "tiers": 4}, "tiers: 4 for clos: a Clos has 1, 2 or 3"),
        ({"kind": "torus", "dims": (2,), "tiers": 2}, "tiers: 2 for torus"),
        ({"kind": "clos", "oversubscription": (1, 0.5)}, "each ratio is 1 or more"),
        ({"kind": "clos", "oversubscription": (1, float("nan"))}, "each ratio is 1 or more"),
        ({"kind": "clos", "tiers": 3, "oversubscription": (1, 7)}, "2 entries for 3 tiers: one per tier"),
        ({"kind": "dragonfly", "oversubscription": (1, 7)}, "2 entries for 3 tiers"),
        ({"kind": "non-blocking", "oversubscription": (2,)}, "a non-blocking fabric has none"),
        ({"kind": "torus"}, "a torus needs the number of nodes"),
        ({"kind": "torus", "dims": (4, 0)}, r"dims\[1\]: 0 is less than 1"),
        ({"kind": "clos", "dims": (4,)}, "dims: belongs to a torus, this fabric is clos"),
        ({"kind": "clos", "global_links": 4}, "global_links: belongs to a dragonfly"),
        ({"kind": "clos", "radix": 1}, "radix: 1 is less than 2"),
        ({"hop_latency_s": -1.0}, "hop_latency_s"),
        ({"background": {"spine": 0.5}}, "no tier of links 'spine': scale-up, gpu-nic"),
        ({"background": {"leaf-spine": 1.0}}, "is no fraction from 0 to below 1"),
    ],
)
def test_specs_that_make_no_network_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        FabricSpec(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodes", "spec", "message"),
    [
        (0, FabricSpec(), "nodes: 0 is less than 1"),
        (
            1000,
            FabricSpec("clos", tiers=2, radix=16),
            "of 2 tiers of 16-port switches: 16 do; .* one more tier",
        ),
        (1000, FabricSpec("clos", radix=16), "3 tiers of 16-port switches: 128 do"),
        (4, FabricSpec("rail-clos", tiers=1), "rails meet at the spines"),
        (4, FabricSpec("torus", dims=(2, 3)), r"dims: \[2, 3\] make 6 nodes, the cluster has 4"),
        (4, FabricSpec("clos", switch=catalog.switch("slingshot-rosetta")), "no ports for NICs of 400 Gbps"),
        (256, FabricSpec("dragonfly", radix=16, global_links=9), "do not fit; take fewer nodes"),
    ],
)
def test_networks_that_do_not_fit_say_what_would(nodes: int, spec: FabricSpec, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        build_fabric(MI300X, nodes, spec)


def test_nodes_without_nics_stay_alone() -> None:
    alone = catalog.node("mi100-2x")
    assert build_fabric(alone, 1).scale_out is None
    with pytest.raises(FabricError, match="have no NICs to connect them"):
        build_fabric(alone, 2)


def test_meshes_must_divide_the_gpus() -> None:
    node = replace(MI300X, scale_up=replace(MI300X.scale_up, domain_gpus=16))
    with pytest.raises(FabricError, match="meshes of 16 do not divide 24 GPUs"):
        build_fabric(node, 3)


def test_an_uneven_mesh_needs_its_table() -> None:
    node = replace(MI250X, scale_up=replace(MI250X.scale_up, pair_links={}))
    with pytest.raises(FabricError, match="needs the number of links of each pair"):
        build_fabric(node, 1)
    split = replace(MI250X, scale_up=replace(MI250X.scale_up, pair_links={(0, 1): 4}))
    with pytest.raises(FabricError, match="no path of links between some GPUs"):
        build_fabric(split, 1)


def test_every_tier_has_a_name_and_unknown_ones_are_refused() -> None:
    fabric = build_fabric(MI300X, 2)
    assert {LINK_TIERS[i] for i in np.unique(fabric.tier)} == {"scale-up", "gpu-nic", "nic-leaf"}
    with pytest.raises(FabricError, match="no tier of links 'uplink'"):
        fabric.on_tier("uplink")
    with pytest.raises(FabricError, match="node 99: nodes of this graph are numbered from 0 to 32"):
        fabric.node_name(99)


@pytest.mark.parametrize(
    "spec",
    [
        FabricSpec(),
        FabricSpec("clos", tiers=3, radix=16),
        FabricSpec("rail-clos", tiers=3, radix=32),
        FabricSpec("rail-only", tiers=3, radix=16),
        FabricSpec("dragonfly", radix=16),
        FabricSpec("torus", dims=(4, 6)),
    ],
    ids=lambda spec: spec.kind,
)
def test_a_kind_has_the_tiers_that_its_name_promises(spec: FabricSpec) -> None:
    fabric = build_fabric(MI300X, 24, spec)
    assert {LINK_TIERS[i] for i in np.unique(fabric.tier)} == set(TIERS_OF_KIND[spec.kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rail-clos", "clos", "rail-only", "dragonfly"])
def test_131072_gpus_stay_below_2_gb(kind: str) -> None:
    tracemalloc.start()
    radix = 256 if kind == "dragonfly" else None
    fabric = build_fabric(MI300X, 16384, FabricSpec(kind, radix=radix))
    flows = Flows.of(np.arange(fabric.gpus), np.roll(np.arange(fabric.gpus), -4096))
    assert (route(fabric, flows, Routing(pxn=True)).rates_Bps() > 0.0).all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fabric.gpus == 131_072
    assert peak < 2e9
