"""Ranges hold what they promise where the promise can be proved: runs of one kind that err alike."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from fakes.residuals import case, residual
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.range import Evidence, Residual
from sim.range.evidence import TUNED_KINDS, LogRange, nine_tenths


def ledger(random_: random.Random, *, stack_spread: float, noise: float) -> tuple[Residual, ...]:
    """Twelve stacks of eight runs: each stack has its own mean error, each run its own on top."""
    rows = []
    for n in range(12):
        mean = random_.gauss(0.0, stack_spread)
        rows += [
            residual(random_.gauss(mean, noise), f"{n}-{i}", stack=f"s{n}", gpu=f"g{n}", model=f"m{i % 4}")
            for i in range(8)
        ]
    return tuple(rows)


@pytest.mark.parametrize(("stack_spread", "noise"), [(0.0, 0.05), (0.05, 0.02), (0.1, 0.1)])
def test_nine_of_ten_new_runs_lie_inside(stack_spread: float, noise: float) -> None:
    """Each stack in turn is unknown, and its first run a new GPU; then that run alone is unknown."""
    random_ = random.Random(7)
    held: dict[str, list[bool]] = {"new GPU": [], "same stack": []}
    for _ in range(20):
        rows = ledger(random_, stack_spread=stack_spread, noise=noise)
        for other in range(12):
            known = Evidence(tuple(row for row in rows if row.case.gpu != f"g{other}"))
            mine = [row for row in rows if row.case.gpu == f"g{other}"]
            found = known.judge(mine[0].case)
            assert found is not None
            held[found.kind].append(found.holds(mine[0].value))
        one = Evidence(rows[1:])
        found = one.judge(rows[0].case)
        assert found is not None
        held[found.kind].append(found.holds(rows[0].value))
    assert 0.85 <= fmean(held["new GPU"]) <= 0.96
    assert 0.80 <= fmean(held["same stack"]) <= 1.0


@given(st.lists(st.floats(-1, 1), min_size=9, max_size=60))
def test_nine_of_ten_surprises_are_no_larger_than_nine_tenths(surprises: list[float]) -> None:
    width = nine_tenths(surprises)
    assert sum(abs(s) <= width for s in surprises) >= 0.9 * len(surprises)


@given(
    st.lists(
        st.tuples(
            st.floats(-0.5, 0.5),
            st.sampled_from("abc"),
            st.sampled_from("xyz"),
            st.sampled_from((8, 16, 64)),
            st.booleans(),
        ),
        max_size=40,
    ),
    st.floats(0.01, 100.0),
)
@settings(max_examples=60)
def test_any_range_holds_its_prediction_and_harder_kinds_are_wider(
    drawn: list[tuple[float, str, str, int, bool]], step_time_s: float
) -> None:
    rows = tuple(
        residual(v, f"{n}", stack=s, gpu=f"gpu {s}", model=m, gpus=g, experts=e)
        for n, (v, s, m, g, e) in enumerate(drawn)
    )
    evidence = Evidence(rows)
    for asked in (case(stack="a", gpu="gpu a", model="x"), case(stack="q"), case(experts=True, gpus=4096)):
        found = evidence.judge(asked)
        if found is not None:
            low, high = found.around(step_time_s)
            assert low <= step_time_s <= high
    widths = [measured[0] for kind in TUNED_KINDS if (measured := evidence.half_width(kind))]
    assert widths == sorted(widths)


@given(st.floats(-0.5, 0.5), st.floats(0.0, 1.0), st.floats(0.1, 10.0))
def test_a_range_scales_with_what_is_predicted(bias: float, half_width: float, factor: float) -> None:
    found = LogRange("same stack", bias, half_width, 20)
    assert [factor * bound for bound in found.around(2.0)] == pytest.approx(found.around(2.0 * factor))
