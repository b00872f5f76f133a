"""Collective times against published bandwidths and closed forms."""

from __future__ import annotations

import pytest
from fakes.machines import PAIRS, cluster, with_links, with_nic, with_stack

MESH = cluster()  # MI300X: one 45 GB/s link to each of seven others, a 400 Gbps NIC each
SWITCH = cluster("h100-8x400g", "nemo-2024-h100")
GIB = 2.0**30


@pytest.mark.parametrize(("group", "links"), [(2, 1), (4, 3), (8, 7)])
def test_a_mesh_gives_a_group_its_own_links_only(group: int, links: int) -> None:
    """A pair of MI300X shares one of seven links, 45 GB/s; all eight reach 315 GB/s."""
    assert MESH.collectives.bus_Bps(group, 8) == pytest.approx(links * 45e9)


@pytest.mark.parametrize("group", [2, 4, 8])
def test_a_switch_gives_every_group_the_whole_port(group: int) -> None:
    whole = SWITCH.node.scale_up.usable_bandwidth_Bps * SWITCH.stack.scale_up_efficiency
    assert SWITCH.collectives.bus_Bps(group, 8) == whole


def test_an_uneven_mesh_is_interpolated_between_measured_groups() -> None:
    lumi = cluster("mi250x-8gcd-4x200g", "megatron-deepspeed-2023-mi250x")
    table = {2: 100e9, 8: 40e9}
    model = with_links(with_stack(lumi, scale_up_efficiency=1.0), bus_bandwidth_Bps=table).collectives
    assert [model.scale_up_Bps(g) for g in (2, 5, 8, 16)] == [100e9, 70e9, 40e9, 40e9]


@pytest.mark.parametrize(("per_domain", "nics"), [(1, 1), (2, 2), (4, 4)])
def test_a_ring_over_nodes_drives_the_nics_of_its_own_members(per_domain: int, nics: int) -> None:
    """Under TP8 a data-parallel ring has one GPU's NIC, under TP4 two, as far as the inner links keep up."""
    node, stack = MESH.node, MESH.stack
    one = node.nic.usable_bandwidth_Bps * node.nics / node.gpus * stack.scale_out_efficiency
    inner = (per_domain - 1) * 45e9 if per_domain > 1 else float("inf")
    assert MESH.collectives.bus_Bps(16 * per_domain, per_domain) == pytest.approx(min(nics * one, inner))


def test_fewer_nics_than_gpus_are_shared() -> None:
    lumi = cluster("mi250x-8gcd-4x200g", "megatron-deepspeed-2023-mi250x")
    share = lumi.node.nic.usable_bandwidth_Bps / 2.0 * lumi.stack.scale_out_efficiency
    assert lumi.collectives.bus_Bps(32, 1) == pytest.approx(share)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "send"])
def test_a_group_of_one_and_an_empty_message_cost_nothing(pair: tuple[str, str], kind: str) -> None:
    model = cluster(*pair).collectives
    assert model.seconds(kind, GIB, 1, 1) == 0.0
    assert model.seconds(kind, 0.0, 8, 8) == 0.0


@pytest.mark.parametrize(("kind", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
@pytest.mark.parametrize(("size", "per_domain", "bus"), [(8, 8, 315e9), (2, 2, 45e9), (16, 1, None)])
def test_large_messages_approach_bytes_over_bus_bandwidth(
    kind: str, passes: int, size: int, per_domain: int, bus: float | None
) -> None:
    """(n-1)/n of the buffer over the bus, twice for an all-reduce."""
    quiet = with_nic(with_links(MESH, latency_s=1e-12, half_bandwidth_bytes=1e-6), latency_s=0.0)
    bandwidth = bus or quiet.collectives.bus_Bps(size, per_domain)
    expected = passes * (size - 1) / size * 64 * GIB / bandwidth
    assert quiet.collectives.seconds(kind, 64 * GIB, size, per_domain) == pytest.approx(expected, rel=1e-6)


def test_an_all_reduce_costs_a_gather_and_a_scatter() -> None:
    model = MESH.collectives
    for size_bytes in (1e3, 1e6, 1e9):
        parts = [model.seconds(kind, size_bytes, 8, 8) for kind in ("all_gather", "reduce_scatter")]
        assert model.seconds("all_reduce", size_bytes, 8, 8) == pytest.approx(sum(parts))


def test_eight_mi300x_show_the_measured_floor_and_half_bandwidth_size() -> None:
    """13 us for small messages, 157 of 315 GB/s at 5.8 MiB."""
    model, half = MESH.collectives, 5.8 * 2**20
    assert model.seconds("all_reduce", 8.0, 8, 8) == pytest.approx(13e-6, rel=0.1)
    seconds = model.seconds("all_reduce", half, 8, 8)
    assert 2 * 7 / 8 * half / seconds == pytest.approx(315e9 / 2, rel=0.01)
    large = 256 * 2**20
    assert 2 * 7 / 8 * large / model.seconds("all_reduce", large, 8, 8) > 0.9 * 315e9


def test_a_send_takes_one_link_inside_and_one_nic_outside() -> None:
    node, stack = MESH.node, MESH.stack
    inside = node.scale_up.latency_s + GIB / 45e9
    outside = node.nic.latency_s + GIB / (node.nic_bandwidth_per_gpu_Bps * stack.p2p_efficiency)
    assert MESH.collectives.seconds("send", GIB, 2, 2) == pytest.approx(inside)
    assert MESH.collectives.seconds("send", GIB, 2, 1) == pytest.approx(outside)


def test_small_all_reduces_over_many_nodes_grow_as_a_tree_and_gathers_as_a_ring() -> None:
    model = MESH.collectives

    def grows(kind: str) -> float:
        return model.seconds(kind, 8.0, 1024, 1) / model.seconds(kind, 8.0, 4, 1)

    assert grows("all_reduce") == pytest.approx(10 / 2, rel=0.05)  # log2 of the nodes
    assert grows("all_gather") == pytest.approx(1024 / 4, rel=0.05)


def test_a_domain_of_one_gpu_has_nics_only() -> None:
    alone = with_links(MESH, domain_gpus=1).collectives
    assert alone.seconds("all_reduce", GIB, 8, 1) > 2 * 7 / 8 * GIB / 50e9
