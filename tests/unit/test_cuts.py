"""Where the model is cut: even, with ends of their own, or balanced by cost."""

from __future__ import annotations

import pytest
from fakes.scenarios import small
from hypothesis import given
from hypothesis import strategies as st

from sim.parallel.cuts import balanced, with_ends
from sim.parallel.schedule import placement
from sim.step import Step
from sim.workload.catalog import architecture
from sim.workload.workload import Workload


def parts(*changes: str) -> tuple[int, ...]:
    return Step(small("model.layers=12", *(f"parallelism.{c}" for c in changes))).family.layout.part_layers


def test_ends_have_their_own_number_and_the_others_share_the_rest() -> None:
    assert parts("pp=4", "first_stage_layers=1", "last_stage_layers=2") == (1, 5, 4, 2)
    assert parts("pp=4", "decoder_last_pipeline_num_layers=3") == (3, 3, 3, 3)
    assert with_ends(18, placement("interleaved", 4, 2), 2, 4) == (1, 3, 3, 2, 1, 3, 3, 2)


def test_the_output_layer_counts_in_a_balanced_cut() -> None:
    """Its 32,000 x 1,024 weights are those of three layers."""
    assert parts("pp=4", "layout=balanced") == (3, 4, 4, 1)
    assert sum(parts("pp=2", "schedule=zbv", "layout=balanced")) == 12


@given(
    costs=st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40),
    end=st.floats(0.0, 5.0),
    stages=st.integers(1, 8),
)
def test_a_balanced_cut_is_no_dearer_than_any_shift_of_a_border(
    costs: list[float], end: float, stages: int
) -> None:
    stages = min(stages, len(costs))

    def dearest(cut: tuple[int, ...]) -> float:
        starts = [sum(cut[:k]) for k in range(len(cut))]
        spent = [sum(costs[s : s + n]) for s, n in zip(starts, cut, strict=True)]
        return max(*spent[:-1], spent[-1] + end, 0.0)

    found = balanced(costs, end, stages)
    assert (len(found), sum(found), min(found) >= 1) == (stages, len(costs), True)
    for border in range(stages - 1):
        for shift in (-1, 1):
            other = list(found)
            other[border] += shift
            other[border + 1] -= shift
            if min(other) >= 1:
                assert dearest(found) <= dearest(tuple(other)) * (1 + 1e-9)


@pytest.mark.parametrize(("model", "layers"), [("qwen3-235b-a22b", 2.8), ("deepseek-v3", 1.6)])
def test_logits_in_layers_are_those_that_others_counted(model: str, layers: float) -> None:
    """By FLOPs of linear layers alone: attention at this length is next to nothing."""
    a = architecture(model)
    load = Workload(a, sequence_length=1, precision="bf16")
    typical = load.layer_weight(a.kind(a.layers - 1))
    assert a.vocab * a.hidden / typical == pytest.approx(layers, abs=0.05)
