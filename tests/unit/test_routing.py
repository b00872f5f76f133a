"""Routes: who picks which path, and what that does to the links."""

from __future__ import annotations

import numpy as np
import pytest

from hwmodels import catalog
from hwmodels.fabric import Fabric, build_fabric
from hwmodels.fabric_spec import FabricError, FabricSpec
from hwmodels.routing import Flows, Routing, loads, route

MI300X = catalog.node("mi300x-8x400g")
MODES = [Routing("ecmp", seed=3), Routing("ecmp", queue_pairs=4), Routing("spray"), Routing("adaptive")]


def two_leaves(nodes: int = 16) -> Fabric:
    """Two full leaves of 64 NICs and 64 uplinks each."""
    return build_fabric(MI300X, nodes, FabricSpec("clos", tiers=2, radix=128))


def across(fabric: Fabric, size_bytes: float = 1.0) -> Flows:
    """Every GPU of the first half sends to its counterpart in the second."""
    half = fabric.gpus // 2
    return Flows.of(np.arange(half), np.arange(half) + half, size_bytes)


def test_collisions_are_those_of_balls_in_bins() -> None:
    """64 flows hashed onto 64 uplinks leave (1 - 1/64)^64 of them empty: 37 %, here over 60 seeds."""
    fabric = two_leaves()
    uplinks = np.flatnonzero(fabric.on_tier("leaf-spine"))[:64]
    occupancy = np.array(
        [
            np.bincount(loads(fabric, across(fabric), Routing(seed=seed))[uplinks].astype(int), minlength=4)[
                :4
            ]
            for seed in range(60)
        ]
    )
    expected = [64 * (1 - 1 / 64) ** 64, 64 * (1 - 1 / 64) ** 63, 64 * 63 / 2 / 64 * (1 - 1 / 64) ** 62]
    # The standard error of a mean over 60 draws of 64 bins is below 0.45 bins for each of these counts.
    assert occupancy.mean(axis=0)[:3] == pytest.approx(expected, abs=1.4)


def test_a_collision_halves_both_flows() -> None:
    fabric = two_leaves()
    routes = route(fabric, across(fabric))
    rates = routes.rates_Bps()
    uplink = loads(fabric, across(fabric))
    crowd = np.array(
        [uplink[routes.resource[routes.start[f] : routes.start[f + 1]]].max() for f in range(len(routes))]
    )
    assert crowd.max() > 1
    assert rates[crowd == crowd.max()] == pytest.approx(MI300X.nic.usable_bandwidth_Bps / crowd.max())


def test_more_queue_pairs_even_out_the_uplinks() -> None:
    fabric = two_leaves()
    worst = [
        np.mean([loads(fabric, across(fabric), Routing(queue_pairs=k, seed=s)).max() for s in range(10)])
        for k in (1, 4, 16)
    ]
    assert worst[0] > worst[1] > worst[2] > 1.0


def test_spraying_and_adaptive_routing_fill_every_uplink_alike() -> None:
    fabric = two_leaves()
    for mode in ("spray", "adaptive"):
        uplinks = loads(fabric, across(fabric), Routing(mode))[fabric.on_tier("leaf-spine")]
        assert uplinks[uplinks > 0] == pytest.approx(1.0)
        rates = route(fabric, across(fabric), Routing(mode)).rates_Bps()
        assert rates == pytest.approx(MI300X.nic.usable_bandwidth_Bps)


def test_spraying_over_trunks_equals_spraying_over_cables() -> None:
    """All paths of a 3-tier Clos, written out cable by cable with an even share each."""
    fabric = build_fabric(MI300X, 16, FabricSpec("clos", tiers=3, radix=16, oversubscription=(1, 1, 3)))
    network = fabric.scale_out
    assert network is not None
    source, target = np.array([5]), np.array([100])
    count = int(network.path_counts(source, target, non_minimal=False)[0])
    every = network.paths(
        np.repeat(source, count), np.repeat(target, count), np.arange(count), non_minimal=False
    )
    by_hand = np.bincount(every.ravel(), minlength=fabric.links) / count
    sprayed = loads(fabric, Flows.of(source, target), Routing("spray"))
    between_switches = fabric.on_tier("leaf-spine") | fabric.on_tier("spine-core")
    assert sprayed[between_switches] == pytest.approx(by_hand[between_switches])


@pytest.mark.parametrize("routing", MODES, ids=lambda r: f"{r.mode}-{r.queue_pairs}")
@pytest.mark.parametrize(
    "spec",
    [
        FabricSpec("clos", tiers=3, radix=16),
        FabricSpec("rail-clos", tiers=2, radix=64),
        FabricSpec("dragonfly", radix=16),
        FabricSpec("torus", dims=(4, 6)),
    ],
    ids=lambda spec: spec.kind,
)
def test_bytes_are_conserved_at_every_node(spec: FabricSpec, routing: Routing) -> None:
    """What enters a switch leaves it; GPUs send and receive exactly their flows."""
    fabric = build_fabric(MI300X, 24, spec)
    rng = np.random.default_rng(2)
    flows = Flows.of(rng.integers(0, 192, 500), rng.integers(0, 192, 500), rng.uniform(0, 1e9, 500))
    load = loads(fabric, flows, routing)
    nodes = sum(count for _, count in fabric.node_counts)
    net = np.bincount(fabric.source, load, nodes) - np.bincount(fabric.target, load, nodes)
    sent = np.bincount(flows.source, flows.size_bytes, nodes) - np.bincount(
        flows.target, flows.size_bytes, nodes
    )
    assert net == pytest.approx(sent, abs=1.0)


@pytest.mark.parametrize("routing", MODES, ids=lambda r: f"{r.mode}-{r.queue_pairs}")
def test_no_link_is_above_its_capacity(routing: Routing) -> None:
    spec = FabricSpec("clos", tiers=3, radix=16, oversubscription=(1, 2, 3), background={"spine-core": 0.5})
    fabric = build_fabric(MI300X, 64, spec)
    rng = np.random.default_rng(3)
    flows = Flows.of(rng.integers(0, 512, 2000), rng.integers(0, 512, 2000))
    routes = route(fabric, flows, routing)
    away = flows.source != flows.target
    rates = np.where(away, routes.rates_Bps(), 0.0)
    assert (routes.loads(rates) <= fabric.available_Bps * (1 + 1e-9)).all()
    assert (rates[away] > 0.0).all()


def test_same_seed_same_routes_and_another_seed_others() -> None:
    fabric = two_leaves()
    first, again, other = (route(fabric, across(fabric), Routing(seed=seed)).resource for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_a_flow_keeps_its_route_whoever_else_is_there() -> None:
    fabric = two_leaves()
    everyone = route(fabric, across(fabric))
    alone = route(fabric, Flows.of(7, 71))
    assert (everyone.resource[everyone.start[7] : everyone.start[8]] == alone.resource).all()


def test_labels_tell_flows_of_one_pair_apart() -> None:
    fabric = two_leaves()
    same = loads(fabric, Flows.of([0] * 8, 64)).max()
    uplinks = loads(fabric, Flows.of(0, 64, label=np.arange(8)))[fabric.on_tier("leaf-spine")]
    assert same == 8.0
    assert uplinks.max() < 8.0


def test_detours_of_a_dragonfly_cross_two_global_links() -> None:
    fabric = build_fabric(MI300X, 64, FabricSpec("dragonfly", radix=16))
    flows = Flows.of(np.arange(8), np.arange(8) + 200)
    far = fabric.on_tier("dragonfly-global")
    assert loads(fabric, flows, Routing())[far].sum() == pytest.approx(8.0)
    assert loads(fabric, flows, Routing(non_minimal=True))[far].sum() == pytest.approx(16.0)


def test_detours_pay_only_where_the_direct_cable_is_full() -> None:
    """All NICs of a group send to one other group over one cable: adaptive routing spreads them out."""
    spec = FabricSpec("dragonfly", radix=16, global_links=1)
    fabric = build_fabric(MI300X, 64, spec)
    group = np.arange(32)
    flows = Flows.of(group, group + 32)
    minimal = route(fabric, flows, Routing("adaptive")).rates_Bps()
    detours = route(fabric, flows, Routing("adaptive", non_minimal=True))
    assert minimal.sum() == pytest.approx(MI300X.nic.usable_bandwidth_Bps)
    assert detours.rates_Bps().sum() > 5 * minimal.sum()
    lone = loads(fabric, Flows.of(0, 32), Routing("adaptive", non_minimal=True))
    assert lone[fabric.on_tier("dragonfly-global")].sum() == 1.0


def test_a_gpu_reaches_itself_at_once() -> None:
    routes = route(build_fabric(MI300X, 1), Flows.of([0, 0], [0, 1]))
    assert routes.hops.tolist() == [0, 1]
    assert routes.latency_s[0] == 0.0
    assert np.isinf(routes.rates_Bps()[0])
    assert routes.rates_Bps(cap_Bps=np.array([5.0, 7.0])).tolist() == [5.0, 7.0]


def test_selected_routes_are_those_of_the_flows() -> None:
    fabric = two_leaves()
    routes = route(fabric, across(fabric))
    rest = routes.select(np.array([9, 4]))
    for place, flow in enumerate((9, 4)):
        kept = rest.resource[rest.start[place] : rest.start[place + 1]]
        assert (kept == routes.resource[routes.start[flow] : routes.start[flow + 1]]).all()
    assert rest.latency_s.tolist() == routes.latency_s[[9, 4]].tolist()
    assert (rest.rates_Bps() >= routes.rates_Bps()[[9, 4]]).all()


def test_weights_share_a_bottleneck_in_proportion() -> None:
    fabric = build_fabric(MI300X, 4)
    routes = route(fabric, Flows.of([0, 8, 16], 24))
    rates = routes.rates_Bps(weight=np.array([1.0, 2.0, 1.0]))
    assert rates == pytest.approx(MI300X.nic.usable_bandwidth_Bps * np.array([0.25, 0.5, 0.25]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "flowlet"}, "mode: 'flowlet' is none of ecmp, spray, adaptive"),
        ({"queue_pairs": 0}, "at least 1"),
        ({"mode": "spray", "queue_pairs": 4}, "spray already shares paths"),
    ],
)
def test_routings_that_make_no_sense_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        Routing(**fields)  # type: ignore[arg-type]


def test_flows_of_unknown_gpus_are_refused() -> None:
    fabric = build_fabric(MI300X, 2)
    with pytest.raises(FabricError, match="target: GPUs are numbered from 0 to 15"):
        route(fabric, Flows.of(0, 16))
    with pytest.raises(FabricError, match="source: GPUs are numbered"):
        route(fabric, Flows.of(-1, 3))
    with pytest.raises(ValueError, match="size_bytes must be finite"):
        Flows.of(0, 1, -1.0)
    with pytest.raises(FabricError, match="detours exist in a dragonfly only"):
        route(fabric, Flows.of(0, 8), Routing(non_minimal=True))


def test_no_flows_load_nothing() -> None:
    fabric = build_fabric(MI300X, 2)
    none = Flows.of(np.empty(0), np.empty(0))
    assert loads(fabric, none).sum() == 0.0
    assert len(route(fabric, none).rates_Bps()) == 0
