"""Ranks in another order: who shares a node, who crosses the network, and what does not change."""

from __future__ import annotations

from itertools import permutations

import pytest
from fakes.scenarios import changes, small
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.axes import AXES, Axes, whole_order
from sim.ops import Collective, Group, Shift
from sim.parallel.layout import Layout, Recompute
from sim.parallel.mesh import Mesh
from sim.step import Step


def layout(order: tuple[str, ...], **degrees: int) -> Layout:
    sizes = dict.fromkeys(AXES, 1) | degrees
    etp = sizes.pop("etp", None)
    return Layout(
        **sizes, etp=etp, order=order, stage_layers=(1,) * sizes["pp"], micro_batch=1, microbatches=8,
        sequence_parallel=sizes["tp"] > 1, data_sharding="zero-1", schedule="1f1b",
        recompute=Recompute("none", (0,) * sizes["pp"]),
    )  # fmt: skip


def members(axes: Axes, along: tuple[str, ...], gpus: int) -> list[list[int]]:
    """Ranks that differ along some axes only, by enumeration."""
    found: dict[tuple[int, ...], list[int]] = {}
    others = [name for name, _ in axes.sizes if name not in along]
    for rank in range(gpus):
        found.setdefault(tuple(axes.index(rank, other) for other in others), []).append(rank)
    return list(found.values())


def test_the_default_is_megatrons() -> None:
    assert AXES == ("tp", "cp", "ep", "dp", "pp")
    axes = layout(AXES, tp=2, cp=4, dp=8, pp=16).axes
    assert [axes.stride(axis) for axis in ("tp", "cp", "dp", "pp")] == [1, 2, 8, 64]


def test_axes_left_out_come_last() -> None:
    assert whole_order(("pp", "tp")) == ("pp", "tp", "cp", "ep", "dp")


@settings(deadline=None, max_examples=150)
@given(
    order=st.permutations(AXES),
    tp=st.sampled_from((1, 2, 4)),
    cp=st.sampled_from((1, 2)),
    dp=st.sampled_from((1, 2, 4)),
    pp=st.sampled_from((1, 2, 4)),
    domain=st.sampled_from((4, 8, 16)),
)
def test_groups_are_those_of_the_ranks_written_out(
    order: list[str], tp: int, cp: int, dp: int, pp: int, domain: int
) -> None:
    """Every group of an axis has that many members in a domain, that far apart; domains are powers of two, so
    that none straddles a border."""
    plan = layout(tuple(order), tp=tp, cp=cp, dp=dp, pp=pp)
    mesh, gpus = Mesh(plan, domain), plan.gpus

    def check(group: Group, along: tuple[str, ...]) -> None:
        for ranks in members(plan.axes, along, gpus):
            assert len(ranks) == group.size
            together = sum(rank // domain == ranks[0] // domain for rank in ranks)
            assert together == group.per_domain
            if group.size > group.per_domain:  # the next domain's first member
                assert ranks[together] - ranks[0] == group.stride * group.per_domain
            elif group.size > 1 and len(along) == 1:
                assert ranks[1] - ranks[0] == group.stride

    check(mesh.tp, ("tp",))
    check(mesh.cp, ("cp",))
    between = [axis for axis in plan.axes.between("cp", "dp") if axis != "pp"]
    if not between or 1 in (cp, dp):  # the others are refused
        check(mesh.dp, ("cp", "dp"))


@settings(deadline=None, max_examples=100)
@given(
    order=st.permutations(AXES),
    tp=st.sampled_from((1, 2, 4)),
    dp=st.sampled_from((1, 2, 3)),
    pp=st.sampled_from((2, 3, 4)),
    domain=st.sampled_from((4, 6, 8)),
)
def test_a_hop_stays_inside_where_every_rank_shares_a_domain_with_its_peer(
    order: list[str], tp: int, dp: int, pp: int, domain: int
) -> None:
    plan = layout(tuple(order), tp=tp, dp=dp, pp=pp)
    mesh = Mesh(plan, domain)
    for near, far in permutations(range(pp), 2):
        pairs = [(ranks[near], ranks[far]) for ranks in members(plan.axes, ("pp",), plan.gpus)]
        hop = mesh.hop(near, far)
        assert (hop.per_domain == 2) == all(a // domain == b // domain for a, b in pairs)
        assert {abs(b - a) for a, b in pairs} == {hop.stride}
    assert mesh.embedding.stride == mesh.hop(0, pp - 1).stride
    assert mesh.embedding.per_domain == mesh.hop(0, pp - 1).per_domain


@pytest.mark.parametrize("order", ["-".join(order) for order in permutations(("tp", "dp", "pp"))])
def test_an_order_moves_bytes_not_their_number(order: str) -> None:
    """Every communicator sends what it sent; memory and FLOPs are the same."""

    def totals(step: Step) -> dict[str, float]:
        found: dict[str, float] = {}
        for task in step.program.tasks:
            for work in task.work:
                if isinstance(work.op, Collective | Shift):
                    axis = work.op.group.axis
                    found[axis] = found.get(axis, 0.0) + work.count * work.op.wire_bytes
        return found

    base = Step(small("parallelism.tp=2", "parallelism.pp=2"))
    other = Step(small("parallelism.tp=2", "parallelism.pp=2", f"parallelism.order={order}"))
    assert totals(other) == totals(base)
    assert [m.parts_bytes for m in other.family.memory] == [m.parts_bytes for m in base.family.memory]
    assert sorted(m.rank for m in other.family.memory) == sorted(
        stage * other.family.layout.axes.stride("pp") for stage in (0, 1)
    )


def step(plan: str, *more: str) -> Step:
    return Step(small("cluster.nodes=2", "training.global_batch=64", *changes(plan), *more))


def test_the_default_written_out_changes_no_bit() -> None:
    assert step("tp=2 pp=2").result.step_time_s == step("tp=2 pp=2 order=tp-cp-ep-dp-pp").result.step_time_s


def test_stages_as_neighbours_send_inside_a_node_and_reduce_across() -> None:
    groups = {
        work.op.group.axis: work.op.group
        for task in step("tp=2 pp=2 order=tp-pp-dp").program.tasks
        for work in task.work
        if isinstance(work.op, Collective)
    }
    assert groups["pp"].per_domain == 2
    assert (groups["dp"].size, groups["dp"].per_domain, groups["dp"].stride) == (4, 2, 4)


def test_what_crosses_a_slow_network_decides() -> None:
    """At 1 Gb/s gradients of 4-byte elements once a step cost more than 16-bit activations of a small micro-batch."""
    slow = "cluster.nic_bandwidth=1 Gbps"
    outside, inside = step("pp=2", slow), step("pp=2 order=pp-dp", slow)
    assert inside.result.step_time_s > outside.result.step_time_s
    parts = [s.result.breakdown_s for s in (outside, inside)]
    assert parts[0]["data_parallel"] < parts[1]["data_parallel"]


def test_a_host_loads_for_the_replicas_that_it_holds() -> None:
    """Neighbours on the pipeline: a node of 8 holds both ends of 4 replicas, not one end of 8."""
    assert Mesh(layout(AXES, dp=8, pp=2), 8).loaders(8) == 8
    assert Mesh(layout(("tp", "cp", "ep", "pp", "dp"), dp=8, pp=2), 8).loaders(8) == 8
    assert Mesh(layout(("tp", "cp", "ep", "pp", "dp"), dp=4, pp=4), 8).loaders(8) == 4
    assert Mesh(layout(AXES, tp=2, dp=8), 8).loaders(8) == 4
