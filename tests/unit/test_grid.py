"""Ranks as arrays: every communicator, nested or not, gives each member the latest of all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engine.grid import Grid, inside
from sim.ops import Group


def group(size: int, stride: int) -> Group:
    return Group("any", size, size, stride)


def test_nested_communicators_become_axes() -> None:
    grid = Grid.of(64, [group(8, 1), group(2, 8), group(8, 8)])
    assert grid.shape == (4, 2, 8)
    assert grid.cuts == (16, 8, 1)


def test_a_communicator_across_roles_is_none_of_a_role() -> None:
    assert not inside(group(2, 64), 64)
    assert not inside(group(1, 1), 64)
    assert inside(group(8, 8), 64)


@given(
    st.sampled_from(
        [
            (24, (3, 1), (2, 3), (4, 6)),
            (24, (4, 1), (3, 4), (6, 4)),
            (24, (2, 1), (3, 2), (4, 2)),
            (8, (8, 1), (2, 4), (2, 2)),
        ]
    ),
    st.integers(0, 1000),
)
def test_members_leave_together(case: tuple[int, *tuple[tuple[int, int], ...]], seed: int) -> None:
    ranks, *pairs = case
    groups = [group(*pair) for pair in pairs]
    grid = Grid.of(ranks, groups)
    values = np.random.default_rng(seed).random((3, ranks))
    for one in groups:
        got = grid.flat(grid.together(grid.spread(values), one))
        for rank in range(ranks):
            span = one.size * one.stride
            first = rank // span * span + rank % one.stride
            members = first + one.stride * np.arange(one.size)
            assert got[:, rank] == pytest.approx(values[:, members].max(axis=1), abs=0)


def test_constant_axes_stay_narrow() -> None:
    grid = Grid.of(64, [group(8, 1)])
    narrow = np.ones((1, 1, 1))
    assert grid.together(narrow, group(8, 1)).shape == (1, 1, 1)
    assert grid.together(grid.spread(np.random.default_rng(0).random((1, 64))), group(8, 1)).shape == (
        1,
        8,
        1,
    )
