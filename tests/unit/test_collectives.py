"""Collective times by hand on a machine of round figures, and catalog machines against published bandwidths."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.machines import PAIRS, cluster, with_links, with_nic, with_stack
from hypothesis import given
from hypothesis import strategies as st

from hwmodels import catalog
from hwmodels.collectives import PASSES, TREE_BANDWIDTH, CollectiveModel, Ranks, UnknownAlgorithm
from hwmodels.protocol import AcrossProtocol, InsideProtocol, Protocols

MESH = cluster()  # MI300X: one 45.5 GB/s link to each of seven others, a 400 Gbps NIC each
SWITCH = cluster("h100-8x400g", "nemo-2024-h100")
US, MIB, GIB = 1e-6, 2.0**20, 2.0**30

# Two protocols each: a quarter of the bandwidth at once, or all of it later.
PROTOCOLS = Protocols(
    inside=(InsideProtocol("low", 0.25, 1.0, 0.0), InsideProtocol("full", 1.0, 0.0, 2.0)),
    across=(AcrossProtocol("low", 0.25, 20 * US), AcrossProtocol("full", 1.0, 100 * US)),
)


def round_machine(**links: float | str) -> CollectiveModel:
    """Eight GPUs with a 50 GB/s link to each other one and a 50 GB/s NIC each.

    Floor 10 us; the message with half of the 350 GB/s bus needs 10 us on the wire (2 MB: 2·7/8·2 MB / 350 GB/s).
    """
    figures = {"usable_bandwidth_Bps": 50e9, "latency_s": 10 * US, "half_bandwidth_bytes": 2e6} | links
    machine = with_nic(with_links(MESH, **figures), usable_bandwidth_Bps=50e9, latency_s=5 * US)
    machine = with_stack(machine, scale_out_efficiency=1.0, p2p_efficiency=1.0, scale_up_efficiency=1.0)
    return CollectiveModel(machine.node, machine.stack, protocols=PROTOCOLS)


ROUND = round_machine()


def timed(low_s: float, full_s: float, wire_s: float) -> float:
    """The faster of the two protocols."""
    return min(low_s + 4.0 * wire_s, full_s + wire_s)


# -- inside one domain -----------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [1.0, 1e5, 6e5, 7e5, 1e7, 1e10])
def test_a_ring_inside_a_domain_by_hand(size_bytes: float) -> None:
    wire = 2 * 7 / 8 * size_bytes / 350e9
    expected = timed(10 * US, 20 * US, wire)
    assert ROUND.seconds("all_reduce", size_bytes, 8, 8) == pytest.approx(expected, rel=1e-12)
    for kind in ("all_gather", "reduce_scatter"):  # one pass: half of everything
        assert ROUND.seconds(kind, size_bytes, 8, 8) == pytest.approx(expected / 2, rel=1e-12)


def test_an_all_to_all_has_its_own_rate_where_a_node_states_one() -> None:
    scale_up = replace(ROUND.node.scale_up, exchange_bandwidth_Bps=175e9)
    slower = replace(ROUND, node=replace(ROUND.node, scale_up=scale_up))
    assert slower.seconds("all_to_all", 1e10, 8, 8) == pytest.approx(
        10 * US + 7 / 8 * 1e10 / 175e9, rel=1e-12
    )
    assert slower.seconds("all_gather", 1e10, 8, 8) == ROUND.seconds("all_gather", 1e10, 8, 8)


def test_protocols_change_where_their_times_meet() -> None:
    """10 us + 4 w = 20 us + w at w = 10/3 us: 2/3 MB."""
    meeting = 10 / 3 * US * 350e9 / 1.75
    assert meeting == pytest.approx(2e6 / 3)
    per_byte = 1.75 / 350e9

    def slope(size_bytes: float) -> float:
        ahead, behind = (ROUND.seconds("all_reduce", size_bytes + d, 8, 8) for d in (1.0, -1.0))
        return (ahead - behind) / 2.0

    assert slope(0.99 * meeting) == pytest.approx(4 * per_byte, rel=1e-6)
    assert slope(1.01 * meeting) == pytest.approx(per_byte, rel=1e-6)


def test_a_smaller_ring_has_fewer_hops() -> None:
    """Four of eight: three of seven hops, three links."""
    wire = 2 * 3 / 4 * 1e6 / 150e9
    expected = timed(10 * US * 3 / 7, 20 * US * 3 / 7, wire)
    assert ROUND.seconds("all_reduce", 1e6, 4, 8) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_a_broadcast_passes_on_the_whole_buffer(kind: str) -> None:
    expected = timed(5 * US, 10 * US, 1e9 / 350e9)
    assert ROUND.seconds(kind, 1e9, 8, 8) == pytest.approx(expected, rel=1e-12)


def test_all_to_all_inside_a_mesh_uses_all_links_at_once() -> None:
    """Each pair exchanges an eighth over its own link."""
    wire = 1e9 / 8 / 50e9
    assert ROUND.seconds("all_to_all", 1e9, 8, 8) == pytest.approx(timed(5 * US, 10 * US, wire), rel=1e-12)


@pytest.mark.parametrize("group", [4, 8])
def test_a_switch_that_adds_has_a_constant_algorithm_bandwidth(group: int) -> None:
    """The buffer leaves and enters once, whatever the number of GPUs."""
    adding = round_machine(kind="switch", usable_bandwidth_Bps=350e9, in_switch_bandwidth_Bps=250e9)
    latency = 20 * US * (group - 1) / 7
    for size_bytes in (1e9, 1e11):
        seconds = adding.seconds("all_reduce", size_bytes, group, 8, "in-switch")
        assert seconds == pytest.approx(latency + size_bytes / 250e9, rel=1e-12)


def test_in_switch_reduction_is_used_only_as_told() -> None:
    adding = round_machine(kind="switch", usable_bandwidth_Bps=350e9, in_switch_bandwidth_Bps=1e15)
    ring = adding.seconds("all_reduce", GIB, 8, 8, "ring")
    assert adding.seconds("all_reduce", GIB, 8, 8) == ring
    assert adding.seconds("all_reduce", GIB, 8, 8, "in-switch") < ring
    assert "in-switch" not in adding.algorithms("all_gather", Ranks(8, 8))
    assert "in-switch" not in ROUND.algorithms("all_reduce", Ranks(8, 8))


# -- across domains --------------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [8.0, 1e7, 1e10])
def test_a_ring_over_two_nodes_by_hand(size_bytes: float) -> None:
    """Bus: eight NICs, 400 GB/s; inside, a ring of eight has seven hops: 350·8/7 = 400."""
    wire = 15 / 16 * size_bytes / 400e9
    once = timed(10 * US, 50 * US, wire)
    assert ROUND.seconds("all_gather", size_bytes, 16, 8, "ring") == pytest.approx(once, rel=1e-12)
    assert ROUND.seconds("all_reduce", size_bytes, 16, 8, "ring") == pytest.approx(2 * once, rel=1e-12)


@pytest.mark.parametrize("nodes", [2, 3, 10, 64])
def test_every_further_node_of_a_ring_adds_a_hop(nodes: int) -> None:
    """A hop: the NIC's 5 us and half of the floor inside, in each of two passes."""
    wire = 2 * (8 * nodes - 1) / (8 * nodes) * 1e9 / 400e9
    expected = timed(20 * US, 100 * US, wire) + 2 * (nodes - 2) * 10 * US
    assert ROUND.seconds("all_reduce", 1e9, 8 * nodes, 8, "ring") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("nodes", "levels"), [(2, 1), (3, 2), (4, 2), (5, 3), (10, 4), (64, 6)])
def test_a_tree_visits_as_many_nodes_as_it_has_levels(nodes: int, levels: int) -> None:
    wire = 2 * (8 * nodes - 1) / (8 * nodes) * 1e9 / (400e9 * TREE_BANDWIDTH)
    expected = timed(20 * US, 100 * US, wire) + 2 * (levels - 1) * 10 * US
    assert ROUND.seconds("all_reduce", 1e9, 8 * nodes, 8, "tree") == pytest.approx(expected, rel=1e-12)


def test_trees_win_small_messages_and_rings_large_ones() -> None:
    """64 nodes: 57 more hops each way against 5 % of bandwidth: equal at w = 1140 us / (1/0.95 - 1) = 21.7 ms."""
    meeting = 2 * 57 * 10 * US / (1 / TREE_BANDWIDTH - 1) * 400e9 / (2 * 511 / 512)
    for factor, faster, slower in ((0.9, "tree", "ring"), (1.1, "ring", "tree")):
        times = {
            name: ROUND.seconds("all_reduce", factor * meeting, 512, 8, name) for name in ("tree", "ring")
        }
        assert times[faster] < times[slower]
        assert ROUND.seconds("all_reduce", factor * meeting, 512, 8) <= times[faster]


def test_a_hierarchical_all_reduce_is_its_three_parts() -> None:
    """Scatter and gather inside, between them eighths over one NIC each."""
    inside = timed(5 * US, 10 * US, 7 / 8 * 1e9 / 350e9)
    wire = 2 * 9 / 10 * 1e9 / 8 / 50e9
    across = min(
        timed(20 * US, 100 * US, wire) + 2 * 8 * 5 * US,  # ring of ten nodes, no members inside
        timed(20 * US, 100 * US, wire / TREE_BANDWIDTH) + 2 * 3 * 5 * US,
    )
    found = ROUND.seconds("all_reduce", 1e9, 80, 8, "hierarchical")
    assert found == pytest.approx(2 * inside + across, rel=1e-12)


def test_a_data_parallel_ring_under_tp8_has_one_nic() -> None:
    wire = 2 * 15 / 16 * 1e9 / 50e9
    expected = timed(20 * US, 100 * US, wire) + 2 * 14 * 5 * US
    assert ROUND.seconds("all_reduce", 1e9, 16, 1, "ring") == pytest.approx(expected, rel=1e-12)
    assert ROUND.bus_Bps(16, 1) == 50e9


@pytest.mark.parametrize(("per_domain", "bus"), [(1, 50e9), (2, 100e9), (4, 200e9), (8, 400e9)])
def test_a_ring_over_nodes_drives_the_nics_of_its_own_members(per_domain: int, bus: float) -> None:
    """As far as the inner links keep up: g members have g-1 links and one hop less, (g-1)·50·g/(g-1)."""
    assert ROUND.bus_Bps(16 * per_domain, per_domain) == pytest.approx(bus)
    slow = round_machine(usable_bandwidth_Bps=20e9)
    assert slow.bus_Bps(16 * per_domain, per_domain) == pytest.approx(bus if per_domain == 1 else 0.4 * bus)


def test_all_to_all_across_nodes_one_partner_at_a_time() -> None:
    """Of sixteen parts seven go over a link, eight over the NIC."""
    wire = 15 * 1e9 / 16 / 50e9
    found = ROUND.seconds("all_to_all", 1e9, 16, 8, "pairwise")
    assert found == pytest.approx(timed(10 * US, 50 * US, wire), rel=1e-12)


def test_a_hierarchical_all_to_all_sends_each_byte_inside_and_half_of_them_across() -> None:
    wire = 7 / 8 * 1e9 / 350e9 + 1 / 2 * 1e9 / 50e9
    found = ROUND.seconds("all_to_all", 1e9, 16, 8, "hierarchical")
    assert found == pytest.approx(timed(10 * US, 50 * US, wire), rel=1e-12)


def test_a_broadcast_over_nodes_is_a_ring_or_a_tree() -> None:
    for name, hops, bandwidth in (("ring", 9, 400e9), ("tree", 4, 380e9)):
        expected = timed(10 * US, 50 * US, 1e9 / bandwidth) + (hops - 1) * 10 * US
        assert ROUND.seconds("broadcast", 1e9, 80, 8, name) == pytest.approx(expected, rel=1e-12)


def test_an_exchange_inside_a_wide_domain_hands_nothing_on() -> None:
    """Over 32 GPUs of an NVL72 it has the latency of eight and its own bytes; a ring has four times as much."""
    model = cluster("gb200-nvl72", "nemo-2025-gb200").collectives
    few, many = (model.seconds("all_to_all", 64.0, ranks, 72) for ranks in (8, 32))
    assert many == pytest.approx(few, rel=1e-3)
    ratio = model.seconds("all_gather", 64.0, 32, 72) / model.seconds("all_gather", 64.0, 8, 72)
    assert ratio == pytest.approx(31 / 7, rel=1e-3)


def test_a_send_takes_one_link_inside_and_one_nic_outside() -> None:
    assert ROUND.seconds("send", 1e9, 2, 2) == pytest.approx(10 * US + 1e9 / 50e9)
    assert ROUND.seconds("send", 1e9, 2, 1) == pytest.approx(5 * US + 1e9 / 50e9)


# -- choice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ranks", "names"),
    [
        ("all_reduce", Ranks(8, 8), ("ring",)),
        ("all_reduce", Ranks(16, 8), ("ring", "tree", "hierarchical")),
        ("all_reduce", Ranks(16, 1), ("ring", "tree")),
        ("all_gather", Ranks(16, 8), ("ring",)),
        ("broadcast", Ranks(16, 8), ("ring", "tree")),
        ("all_to_all", Ranks(8, 8), ("direct", "grouped")),
        ("all_to_all", Ranks(16, 8), ("pairwise", "hierarchical", "grouped")),
    ],
)
def test_algorithms_of_a_collective(kind: str, ranks: Ranks, names: tuple[str, ...]) -> None:
    assert ROUND.algorithms(kind, ranks) == names


@given(
    kind=st.sampled_from(sorted(PASSES)), nodes=st.integers(1, 200), size_bytes=st.floats(1.0, 1e12),
    per_domain=st.sampled_from((1, 2, 8)),
)  # fmt: skip
def test_auto_takes_the_fastest(kind: str, nodes: int, size_bytes: float, per_domain: int) -> None:
    ranks = Ranks(nodes * per_domain, per_domain)
    each = [
        ROUND.seconds(kind, size_bytes, ranks.size, per_domain, name)
        for name in ROUND.algorithms(kind, ranks)
        if (kind, name) not in (("all_to_all", "hierarchical"), ("all_to_all", "grouped"))  # only as told
    ]
    assert ROUND.seconds(kind, size_bytes, ranks.size, per_domain) == min(each)


def test_a_grouped_exchange_has_one_hop_and_keeps_links_and_nics_busy() -> None:
    """Inside as direct over 8; beyond 8 its latency stays. Across, the slower of links and NIC counts."""
    assert ROUND.seconds("all_to_all", GIB, 8, 8, "grouped") == ROUND.seconds("all_to_all", GIB, 8, 8)
    few, many = (ROUND.seconds("all_to_all", 1.0, n, n, "grouped") for n in (8, 64))
    assert few == pytest.approx(many, rel=1e-3)
    nic = ROUND.exchange_Bps(16, None) * ROUND.stack.p2p_efficiency
    across = ROUND.seconds("all_to_all", 2.0**40, 16, 8, "grouped")
    assert across == pytest.approx(2.0**40 / 2 / nic, rel=1e-3)


def test_an_algorithm_that_a_collective_does_not_have_lists_those_that_it_has() -> None:
    with pytest.raises(
        UnknownAlgorithm, match="tree is no algorithm of all_gather on this group; known: ring"
    ):
        ROUND.seconds("all_gather", GIB, 16, 8, "tree")
    with pytest.raises(UnknownAlgorithm, match="in-switch is no algorithm of all_reduce"):
        ROUND.seconds("all_reduce", GIB, 8, 8, "in-switch")
    with pytest.raises(KeyError, match="all_shuffle"):
        ROUND.seconds("all_shuffle", GIB, 8, 8)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
@pytest.mark.parametrize("kind", [*sorted(PASSES), "send"])
def test_a_group_of_one_and_an_empty_message_cost_nothing(pair: tuple[str, str], kind: str) -> None:
    model = cluster(*pair).collectives
    assert model.seconds(kind, GIB, 1, 1) == 0.0
    assert model.seconds(kind, 0.0, 8, 8) == 0.0


# -- machines of the catalog -----------------------------------------------------------------------


def bus_GBps(
    model: CollectiveModel, kind: str, size_bytes: float, size: int, algorithm: str = "auto"
) -> float:
    """As rccl-tests print it, eight ranks to a node."""
    factor = {"all_reduce": 2.0 * (size - 1) / size, "broadcast": 1.0}.get(kind, (size - 1) / size)
    return factor * size_bytes / model.seconds(kind, size_bytes, size, 8, algorithm) / 1e9


@pytest.mark.parametrize(("group", "links"), [(2, 1), (4, 3), (8, 7)])
def test_a_mesh_gives_a_group_its_own_links_only(group: int, links: int) -> None:
    """A pair of MI300X shares one of seven links, 45.5 GB/s; all eight reach 318 GB/s."""
    assert MESH.collectives.bus_Bps(group, 8) == pytest.approx(links * 45.5e9)
    assert bus_GBps(MESH.collectives, "all_reduce", 64 * GIB, group) == pytest.approx(links * 45.5, rel=1e-3)


@pytest.mark.parametrize("group", [2, 4, 8])
def test_a_switch_gives_every_group_the_whole_port(group: int) -> None:
    whole = SWITCH.node.scale_up.usable_bandwidth_Bps * SWITCH.stack.scale_up_efficiency
    assert SWITCH.collectives.bus_Bps(group, 8) == whole


def test_an_uneven_mesh_is_interpolated_between_measured_groups() -> None:
    lumi = cluster("mi250x-8gcd-4x200g", "megatron-deepspeed-2023-mi250x")
    table = {2: 100e9, 8: 40e9}
    model = with_links(with_stack(lumi, scale_up_efficiency=1.0), bus_bandwidth_Bps=table).collectives
    assert [model.scale_up_Bps(g) for g in (2, 5, 8, 16)] == [100e9, 70e9, 40e9, 40e9]


def test_fewer_nics_than_gpus_are_shared() -> None:
    lumi = cluster("mi250x-8gcd-4x200g", "megatron-deepspeed-2023-mi250x")
    share = lumi.node.nic.usable_bandwidth_Bps / 2.0 * lumi.stack.scale_out_efficiency
    assert lumi.collectives.bus_Bps(32, 1) == pytest.approx(share)


def test_eight_mi300x_show_the_measured_floor_and_half_bandwidth_size() -> None:
    """13 us for small messages, about 157 GB/s at 5.8 MiB, nearly the plateau at 256 MiB."""
    model = MESH.collectives
    assert model.seconds("all_reduce", 8.0, 8, 8) == pytest.approx(13 * US, rel=0.01)
    assert bus_GBps(model, "all_reduce", 5.8 * MIB, 8) == pytest.approx(157, rel=0.05)
    assert bus_GBps(model, "all_reduce", 256 * MIB, 8) > 0.93 * 318.5


def test_two_mi300x_nodes_are_bound_by_their_links() -> None:
    """8 x 45.5 = 364 GB/s of links against 8 x 49.34 x 0.95 = 375 of NICs; measured 351 to 374."""
    assert MESH.collectives.bus_Bps(16, 8) == pytest.approx(8 * 45.5e9)
    assert bus_GBps(MESH.collectives, "all_reduce", 64 * GIB, 16, "ring") == pytest.approx(364, rel=1e-3)
    assert MESH.collectives.seconds("all_reduce", 8.0, 16, 8) == pytest.approx(37 * US, rel=0.01)


def test_all_to_all_of_two_mi300x_nodes_has_one_link_or_one_nic() -> None:
    """Acceptance: 45 GB/s at 8 GiB. In one node every link works."""
    assert 45 < bus_GBps(MESH.collectives, "all_to_all", 8 * GIB, 16, "pairwise") < 50
    assert bus_GBps(MESH.collectives, "all_to_all", 8 * GIB, 8) == pytest.approx(7 * 45.5, rel=0.01)


def test_a_broadcast_over_two_mi300x_nodes_passes_acceptance() -> None:
    """At least 310 GB/s at 8 GiB."""
    assert 310 < bus_GBps(MESH.collectives, "broadcast", 8 * GIB, 16) <= 364


@pytest.mark.parametrize(
    ("node", "buffer_GBps", "measured"), [("h200-8x400g", 265, 473), ("b200-8x400g", 480, 838)]
)
def test_in_switch_reduction_of_eight_gpus(node: str, buffer_GBps: float, measured: float) -> None:
    """Bus bandwidth is 2·7/8 of what passes the switch; published plateaus of all-reduce with it on."""
    entry = catalog.node(node)
    stack = replace(catalog.newest_stack(entry.gpu.name), scale_up_efficiency=1.0)
    found = bus_GBps(CollectiveModel(entry, stack), "all_reduce", 256 * GIB, 8, "in-switch")
    assert found == pytest.approx(1.75 * buffer_GBps, rel=1e-3)
    assert found == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_an_all_reduce_inside_a_node_costs_a_gather_and_a_scatter(pair: tuple[str, str]) -> None:
    model = cluster(*pair).collectives
    for size_bytes in (1e3, 1e6, 1e9):
        parts = [model.seconds(kind, size_bytes, 8, 8) for kind in ("all_gather", "reduce_scatter")]
        assert model.seconds("all_reduce", size_bytes, 8, 8) == pytest.approx(sum(parts))


def test_a_domain_of_one_gpu_has_nics_only() -> None:
    alone = with_links(MESH, domain_gpus=1).collectives
    assert alone.seconds("all_reduce", GIB, 8, 1) > 2 * 7 / 8 * GIB / 50e9
