"""What a network leaves of a NIC when every GPU talks to the one a stride further."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels import catalog
from hwmodels.collectives import PASSES, CollectiveModel
from hwmodels.fabric_spec import FabricError, FabricSpec
from hwmodels.network import Network, RoutingSpec

MI300X = catalog.node("mi300x-8x400g")
STACK = catalog.stack("primus-2026-mi300x")
NODES = 16
GPUS = NODES * 8

# 32 ports: with full bisection, a leaf takes 16 NICs, two nodes. 16 nodes are eight leaves.
FULL = FabricSpec("clos", radix=32, tiers=2)


def network(spec: FabricSpec = FULL, mode: str = "spray", nodes: int = NODES, **routing: int) -> Network:
    return Network(MI300X, nodes, nodes * 8, spec, RoutingSpec(mode, **routing))


def oversubscribed(ratio: float) -> FabricSpec:
    return replace(FULL, oversubscription=(1.0, ratio))


def test_an_ideal_switch_is_never_in_the_way() -> None:
    ideal = network(FabricSpec())
    assert ideal.transparent
    assert {ideal.share(stride) for stride in (1, 8, 64, GPUS)} == {1.0}


@pytest.mark.parametrize("mode", ["spray", "adaptive", "ecmp"])
def test_neighbours_inside_a_domain_do_not_count(mode: str) -> None:
    """A stride of all GPUs is each to itself; one node has no network."""
    assert network(mode=mode).share(GPUS) == 1.0
    assert network(oversubscribed(3), mode, nodes=1).share(1) == 1.0


@pytest.mark.parametrize("stride", [1, 8, 16, 24, 64, 120])
def test_full_bisection_carries_every_shift(stride: int) -> None:
    assert network().share(stride) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("ratio", [1, 1.5, 2, 3, 7])
def test_a_ratio_of_r_leaves_one_rth_across_leaves(ratio: float) -> None:
    """With r:1, a leaf of 32 ports takes 32 r/(1 + r) NICs, rounded to whole nodes; half the machine on is always
    another leaf."""
    assert network(oversubscribed(ratio), nodes=32).share(128) == pytest.approx(1.0 / ratio, rel=1e-12)


def test_a_ratio_leaves_traffic_below_a_leaf_alone() -> None:
    """Rail-only leaves of 21 NICs, one per node and rail: eight nodes hang on one leaf of each rail."""
    rails = FabricSpec("rail-only", radix=32, oversubscription=(1, 2), tiers=2)
    assert network(rails, nodes=8).share(8) == pytest.approx(1.0, rel=1e-12)


def test_a_ring_of_nodes_crosses_leaves_with_some_nodes_only() -> None:
    """At 2:1 a leaf takes two nodes and lets half of their traffic up. The next node of every second one hangs on
    the same leaf, so that nothing blocks; two nodes on it is always another leaf, and half remains."""
    assert network(oversubscribed(2)).share(8) == pytest.approx(1.0, rel=1e-12)
    assert network(oversubscribed(2)).share(16) == pytest.approx(0.5, rel=1e-12)


def test_ratios_of_several_tiers_take_the_tightest() -> None:
    spec = replace(FULL, tiers=2, oversubscription=(2.0, 3.0))
    assert network(spec, nodes=32).share(128) == pytest.approx(1 / 6, rel=1e-12)  # 3 of what 2:1 lets in


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("tier", ["leaf-spine", "nic-leaf"])
def test_background_load_leaves_the_rest(tier: str, fraction: float) -> None:
    loaded = replace(FULL, background={tier: fraction})
    assert network(loaded).share(64) == pytest.approx(1.0 - fraction, rel=1e-12)


def test_background_load_alone_makes_an_ideal_switch_opaque() -> None:
    loaded = network(FabricSpec(background={"nic-leaf": 0.4}))
    assert not loaded.transparent
    assert loaded.share(8) == pytest.approx(0.6, rel=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    stride=st.integers(1, GPUS - 1), seed=st.integers(0, 2**32 - 1), queue_pairs=st.integers(1, 16),
    ratio=st.sampled_from((1.0, 2.0, 5.0)),
)  # fmt: skip
def test_hashing_is_never_better_than_spraying(
    stride: int, seed: int, queue_pairs: int, ratio: float
) -> None:
    hashed = network(oversubscribed(ratio), "ecmp", queue_pairs=queue_pairs, seed=seed).share(stride)
    assert 0.0 < hashed <= network(oversubscribed(ratio)).share(stride) + 1e-12


def test_hashes_collide_and_queue_pairs_help() -> None:
    """Sixteen flows on sixteen spines by hash: the fullest spine gets three or more, nearly always."""
    seeds = range(8)
    one = [network(mode="ecmp", seed=seed).share(64) for seed in seeds]
    many = [network(mode="ecmp", seed=seed, queue_pairs=16).share(64) for seed in seeds]
    assert max(one) <= 0.5
    assert sum(many) > sum(one)
    assert max(many) < 1.0


def test_the_seed_decides_and_nothing_else() -> None:
    shares = [network(mode="ecmp", seed=seed).share(64) for seed in (7, 7, 8, 9, 10, 11)]
    assert shares[0] == shares[1]
    assert len(set(shares)) > 1
    assert len({network(seed=seed).share(64) for seed in (7, 8)}) == 1  # spraying has no hash


@settings(deadline=None, max_examples=40)
@given(ratios=st.tuples(st.floats(1.0, 8.0), st.floats(1.0, 8.0)), stride=st.integers(1, GPUS - 1))
def test_more_oversubscription_is_never_faster(ratios: tuple[float, float], stride: int) -> None:
    """Across leaves. (Below them it may be: the larger the ratio, the more nodes a leaf of 32 ports takes.)"""
    less, more = sorted(ratios)
    assert network(oversubscribed(more)).share(64) <= network(oversubscribed(less)).share(64) + 1e-12
    assert 0.0 < network(oversubscribed(more)).share(stride) <= 1.0


@settings(deadline=None, max_examples=30)
@given(ratio=st.floats(1.0, 8.0), stride=st.integers(1, GPUS - 1))
def test_whole_flows_on_the_least_loaded_path_are_never_better_than_spraying(
    ratio: float, stride: int
) -> None:
    spec = oversubscribed(ratio)
    assert network(spec, "adaptive").share(stride) <= network(spec).share(stride) + 1e-12


def test_use_is_what_share_is_taken_from() -> None:
    use = network(oversubscribed(4)).use(64)
    assert use["leaf-spine"] == pytest.approx(4.0)
    assert use["nic-leaf"] == pytest.approx(1.0)
    assert "scale-up" not in use


def test_a_network_that_does_not_fit_says_so() -> None:
    with pytest.raises(FabricError, match="radix"):
        network(FabricSpec("clos", radix=4, tiers=1)).check()
    network(FULL).check()


# -- collectives on it -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*PASSES, "send"])
@pytest.mark.parametrize(("size", "per_domain"), [(GPUS, 8), (NODES, 1), (8, 8)])
def test_a_network_that_blocks_nothing_costs_the_closed_form(kind: str, size: int, per_domain: int) -> None:
    """Bit by bit, for a graph with full bisection under spraying."""
    closed, on_graph = CollectiveModel(MI300X, STACK), CollectiveModel(MI300X, STACK, network())
    stride = 1 if per_domain == 8 else 8
    for size_bytes in (8.0, 1e6, 1e9):
        expected = closed.seconds(kind, size_bytes, size, per_domain, stride=stride)
        assert on_graph.seconds(kind, size_bytes, size, per_domain, stride=stride) == pytest.approx(expected)


def test_an_oversubscribed_ring_takes_r_times_its_wire_time() -> None:
    """Rings of two, half the machine apart, one NIC each: every byte crosses a spine."""
    closed = CollectiveModel(MI300X, STACK)
    blocked = CollectiveModel(MI300X, STACK, network(oversubscribed(4)))
    seconds = [m.seconds("all_gather", 64e9, 2, 1, stride=64) for m in (closed, blocked)]
    wire = 32e9 / (MI300X.nic_bandwidth_per_gpu_Bps * STACK.scale_out_efficiency)
    assert seconds[1] - seconds[0] == pytest.approx(3 * wire, rel=1e-9)


def test_a_collective_that_says_no_stride_sees_no_network() -> None:
    blocked = CollectiveModel(MI300X, STACK, network(oversubscribed(4)))
    assert blocked.seconds("all_reduce", 1e9, 2, 1) == CollectiveModel(MI300X, STACK).seconds(
        "all_reduce", 1e9, 2, 1
    )


@pytest.mark.parametrize("size", [16, 64, 128, 256])
def test_an_exchange_over_a_network_that_blocks_nothing_keeps_the_whole_nic(size: int) -> None:
    assert network().exchange_share(1, size) == pytest.approx(1.0, rel=1e-12)


def test_an_exchange_crosses_the_tiers_that_its_group_spans() -> None:
    """Groups within a leaf do not feel what lies above it; one over all leaves loses nearly the ratio."""
    blocked = network(replace(oversubscribed(3), radix=64), nodes=60)  # leaves of six nodes
    assert blocked.exchange_share(1, 16) == pytest.approx(1.0, rel=1e-12)
    wide = blocked.exchange_share(1, 480)
    assert 1 / 3 - 1e-9 <= wide < 0.5
    assert wide < network(replace(oversubscribed(2), radix=64), nodes=60).exchange_share(1, 480)


def test_scattered_nodes_meet_on_oversubscribed_spines() -> None:
    """Packed, neighbouring nodes share a leaf and half of them cross no spine; scattered, others meet. The seed
    moves them."""
    packed = network(oversubscribed(1.5), nodes=6)
    loose = [replace(packed, scattered=True, routing=RoutingSpec("spray", seed=seed)) for seed in (0, 0, 1)]
    assert packed.use(8)["leaf-spine"] < loose[2].use(8)["leaf-spine"]
    uses = [[one.use(stride) for stride in (8, 16, 24)] for one in loose]
    assert uses[0] == uses[1] != uses[2]


def test_places_do_not_matter_where_every_shift_fits() -> None:
    """On a full bisection with packets over all paths any permutation of nodes carries every shift."""
    loose = replace(network(), scattered=True)
    assert loose.share(8) == pytest.approx(1.0, rel=1e-12)
    assert loose.share(64) == pytest.approx(1.0, rel=1e-12)
