"""Where tables go: the plans that submissions logged, and what every plan owes its tables."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.parallel.table_pieces import COLUMNS, TablePlan, lookup_width, parameters
from sim.parallel.table_planner import (
    NoRoom,
    TableRequest,
    columns_everywhere,
    planned,
    rows_everywhere,
    whole_tables,
)
from sim.workload.catalog import recommender
from sim.workload.tables import Table

DCNV2 = recommender("dlrm-dcnv2").tables
H100_LINKS, H100_NICS, B200_LINKS = 3350 / 450 / 4, 3350 / 50 / 4, 8000 / 900 / 4


def request(buckets: int, cost: float, below: float = 0.0, sharers: int = 1) -> TableRequest:
    uses = {t.name: (t.rows_per_sample(1.0), t.vectors_per_sample(1.0)) for t in DCNV2}
    return TableRequest(DCNV2, uses, buckets, 60e9 * sharers, 8.0, cost, below)


@pytest.mark.parametrize(
    ("buckets", "cost", "below", "sharers", "pieces", "lookups", "mean"),
    [
        (8, H100_LINKS, 0.0, 1, 5, 29.0, 26.75),
        (4, H100_LINKS, 0.0, 1, 10, 57.25, 53.5),
        (8, H100_LINKS, 8e6, 1, 3, 26.0, 23.88),
        (4, H100_LINKS, 8e6, 1, 7, 54.25, 47.75),
        (8, H100_NICS, 0.0, 8, 4, 8 * 6.38, 8 * 3.34),
        (8, H100_NICS, 12.5e6, 8, 2, 8 * 3.5, 8 * 2.84),
        (16, H100_NICS, 0.0, 8, 3, 8 * 3.38, 8 * 1.67),
        (8, B200_LINKS, 8e6, 1, 3, 26.0, 23.88),
        (64, B200_LINKS, 0.0, 1, 2, 6.0, 3.34),
    ],
)
def test_the_planner_gives_the_logged_hot_ranks(
    buckets: int, cost: float, below: float, sharers: int, pieces: int, lookups: float, mean: float
) -> None:
    """Most pieces and most lookups of a rank (of a node where two numbers are eighths), from MLPerf logs.

    Bandwidth ratios are those of data sheets over four, as the submissions' launchers say.
    """
    plan = planned(request(buckets, cost, below, sharers))
    loads = [sum(piece.lookups for piece in bucket) for bucket in plan.buckets]
    assert max(len(bucket) for bucket in plan.buckets) == pieces
    assert max(loads) == pytest.approx(lookups, abs=0.05)
    assert sum(loads) / buckets == pytest.approx(mean, abs=0.05)


def test_small_tables_are_replicated() -> None:
    """13 of 26 tables take less than 8 MB with their state, 14 less than 12.5."""
    assert len(request(8, 2.0, 8e6).replicated) == 13
    assert len(request(8, 2.0, 12.5e6).replicated) == 14


tables = st.lists(
    st.tuples(st.integers(1, 10**7), st.sampled_from([32, 64, 128]), st.integers(1, 100)),
    min_size=1,
    max_size=12,
).map(lambda found: tuple(Table(f"t{i}", rows, dim, float(h)) for i, (rows, dim, h) in enumerate(found)))


@settings(max_examples=25)
@given(tables, st.sampled_from([1, 2, 4, 8]), st.sampled_from(["planned", "row", "table", "column"]))
def test_every_row_lies_somewhere_once_and_every_lookup_is_answered(
    found: tuple[Table, ...], buckets: int, kind: str
) -> None:
    plan = _plan(found, buckets, kind)
    rows: dict[str, float] = defaultdict(float)
    lookups: dict[str, float] = defaultdict(float)
    for bucket in plan.buckets:
        assert len({piece.table.name for piece in bucket}) == len(bucket)
        for piece in bucket:
            rows[piece.table.name] += piece.parameters
            lookups[piece.table.name] += piece.asked * piece.width / piece.table.dim
    for table in found:
        assert rows[table.name] == pytest.approx(table.parameters)
        assert lookups[table.name] == pytest.approx(table.lookups)


@settings(max_examples=25)
@given(tables, st.sampled_from([2, 4, 8]))
def test_a_plan_is_no_worse_than_rows_everywhere(found: tuple[Table, ...], buckets: int) -> None:
    asked = _request(found, buckets)
    cost = [
        max(sum(p.lookups + asked.exchange_cost for p in bucket) for bucket in plan.buckets)
        for plan in (planned(asked), rows_everywhere(asked))
    ]
    assert cost[0] <= cost[1] + 1e-9


@settings(max_examples=25)
@given(tables, st.sampled_from([2, 4, 8]), st.floats(0.1, 1.5))
def test_skew_moves_lookups_to_one_rank_and_loses_none(
    found: tuple[Table, ...], buckets: int, skew: float
) -> None:
    plan = rows_everywhere(_request(found, buckets, skew))
    total = sum(lookup_width(bucket) for bucket in plan.buckets)
    assert total == pytest.approx(sum(t.lookups * t.dim for t in found))
    assert max(map(lookup_width, plan.buckets)) >= total / buckets - 1e-6


def test_columns_are_as_wide_as_a_load_at_least() -> None:
    plan = columns_everywhere(_request((Table("t", 100, 64, 1.0),), 8))
    assert [piece.width for bucket in plan.buckets for piece in bucket] == [32, 32]
    assert {piece.cut for bucket in plan.buckets for piece in bucket} == {COLUMNS}


def test_no_room_is_said_with_the_table_that_finds_none() -> None:
    asked = TableRequest((Table("big", 10**6, 128),), {"big": (1.0, 1.0)}, 4, 1e8, 4.0, 1.0)
    with pytest.raises(NoRoom, match=r"table big finds no rank with 0\.5 GB left"):
        whole_tables(asked)
    with pytest.raises(NoRoom, match=r"0\.1 GB per rank cut over all of them, there is room for 0\.1 GB"):
        rows_everywhere(asked)


def test_memory_bounds_the_fullest_rank() -> None:
    for buckets in (4, 8):
        plan = planned(request(buckets, 2.0))
        assert max(map(parameters, plan.buckets)) * 8.0 <= 60e9


def _plan(found: tuple[Table, ...], buckets: int, kind: str) -> TablePlan:
    planners = {
        "planned": planned,
        "row": rows_everywhere,
        "table": whole_tables,
        "column": columns_everywhere,
    }
    return planners[kind](_request(found, buckets))


def _request(found: tuple[Table, ...], buckets: int, skew: float = 0.0) -> TableRequest:
    uses = {t.name: (t.lookups, 1.0) for t in found}
    return TableRequest(found, uses, buckets, 1e15, 8.0, 2.0, skew=skew)
