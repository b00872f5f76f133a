"""Stages and communicators: who sits where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.families.transformer import part_layers
from sim.ops import Group
from sim.parallel.layout import Layout, Recompute
from sim.parallel.mesh import Mesh


def layout(tp: int = 1, pp: int = 1, dp: int = 1, *, microbatches: int = 8, schedule: str = "1f1b") -> Layout:
    return Layout(
        tp=tp, cp=1, pp=pp, dp=dp, stage_layers=(1,) * pp, micro_batch=1, microbatches=microbatches,
        sequence_parallel=tp > 1, data_sharding="zero-1", schedule=schedule,
        recompute=Recompute("none", (0,) * pp),
    )  # fmt: skip


# -- layers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [(80, 8, (10,) * 8), (126, 16, (8,) * 14 + (7,) * 2), (32, 3, (11, 11, 10)), (5, 5, (1,) * 5)],
)
def test_auto_gives_extra_layers_to_the_first_stages(
    layers: int, stages: int, expected: tuple[int, ...]
) -> None:
    assert part_layers(layers, stages, "auto") == expected
    assert part_layers(layers, stages, expected[::-1]) == expected[::-1]


@given(layers=st.integers(1, 500), stages=st.integers(1, 64))
def test_auto_loses_no_layer_and_is_even(layers: int, stages: int) -> None:
    found = part_layers(layers, stages, "auto")
    assert (sum(found), len(found)) == (layers, stages)
    assert max(found) - min(found) <= 1


# -- communicators ---------------------------------------------------------------------------------


def ranks(plan: Layout, stage: int, replica: int, shard: int) -> int:
    """Tensor-parallel ranks first, then replicas, then stages."""
    return (stage * plan.dp + replica) * plan.tp + shard


@given(
    tp=st.sampled_from((1, 2, 4, 8)),
    dp=st.sampled_from((1, 2, 4, 8, 16)),
    pp=st.sampled_from((1, 2, 4, 8)),
    domain=st.sampled_from((8, 16, 72)),
)
def test_groups_count_the_members_that_share_a_domain(tp: int, dp: int, pp: int, domain: int) -> None:
    plan = layout(tp, pp, dp)
    mesh = Mesh(plan, domain)

    def together(members: list[int]) -> int:
        return sum(1 for rank in members if rank // domain == members[0] // domain)

    if domain % (tp * dp) == 0 or (tp * dp) % domain == 0:  # groups do not straddle a border by accident
        assert mesh.tp == Group("tp", tp, together([ranks(plan, 0, 0, t) for t in range(tp)]), 1)
        assert mesh.dp == Group("dp", dp, together([ranks(plan, 0, d, 0) for d in range(dp)]), tp)
    for stage in range(pp - 1):
        pairs = [[ranks(plan, s, d, t) for s in (stage, stage + 1)] for d in range(dp) for t in range(tp)]
        assert {next_one - one for one, next_one in pairs} == {mesh.hop(stage, stage + 1).stride}
        if mesh.hop(stage, stage + 1).per_domain == 2:
            assert all(together(pair) == 2 for pair in pairs)


@pytest.mark.parametrize(
    ("tp", "dp", "hops"),
    [
        (1, 1, [2, 2, 2]),  # four stages in one node
        (4, 1, [2, 1, 2]),  # two stages a node: every second hop leaves it
        (2, 2, [2, 1, 2]),
        (8, 1, [1, 1, 1]),
        (1, 16, [1, 1, 1]),
    ],
)
def test_a_hop_leaves_the_node_only_where_the_next_stage_is_elsewhere(
    tp: int, dp: int, hops: list[int]
) -> None:
    mesh = Mesh(layout(tp, 4, dp), 8)
    assert [mesh.hop(stage, stage + 1).per_domain for stage in range(3)] == hops
    assert [mesh.hop(stage + 1, stage) for stage in range(3)] == [mesh.hop(s, s + 1) for s in range(3)]


def test_the_hop_from_the_last_stage_to_the_first_spans_the_pipeline() -> None:
    assert Mesh(layout(2, 4, 2), 8).hop(3, 0) == Group("pp", 2, 1, 12)
    assert Mesh(layout(1, 4, 2), 8).hop(3, 0) == Group("pp", 2, 2, 6)


@pytest.mark.parametrize(
    ("tp", "pp", "dp", "per_domain", "stride"),
    [(2, 4, 1, 2, 6), (8, 2, 1, 1, 8), (2, 4, 4, 1, 24)],
)
def test_a_tied_embedding_joins_first_and_last_stage(
    tp: int, pp: int, dp: int, per_domain: int, stride: int
) -> None:
    plan = layout(tp, pp, dp)
    assert Mesh(plan, 8).embedding == Group("embedding", 2, per_domain, stride)
    assert ranks(plan, pp - 1, 0, 0) - ranks(plan, 0, 0, 0) == stride


def test_gpus_are_the_product_of_the_degrees() -> None:
    assert layout(8, 16, 128).gpus == 16384


@pytest.mark.parametrize(
    ("tp", "pp", "dp", "expected"),
    [
        (1, 4, 2, Group("dp", 4, 4, 1)),  # all in one node
        (8, 2, 1, Group("dp", 2, 1, 8)),  # no replicas: the mirrored stages alone
        (2, 4, 4, Group("dp", 8, 4, 2)),  # a stage fills a node, its mirror image another
    ],
)
def test_copies_of_a_model_exchange_gradients_across_mirrored_stages(
    tp: int, pp: int, dp: int, expected: Group
) -> None:
    assert Mesh(layout(tp, pp, dp, microbatches=16, schedule="dualpipe"), 8).dp == expected
