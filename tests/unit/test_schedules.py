"""Orders of passes: by hand where they are short, by their promises where they are long."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.parallel.interleaving import interleaved, round_size
from sim.parallel.layout import Layout, Recompute
from sim.parallel.passes import Order, Pass
from sim.parallel.placement import Placement
from sim.parallel.schedule import (
    BACKWARD,
    FOLDED,
    FORWARD,
    SPLIT,
    WEIGHT,
    gpipe,
    held_at_most,
    one_f_one_b,
    orders,
    placement,
    slots,
)  # fmt: skip
from sim.parallel.v_shape import zbv
from sim.parallel.weight_filling import filled

ALL = (
    "1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe", "dualpipe-v",
)  # fmt: skip


def short(order: Sequence[Pass]) -> str:
    """``F0.1 B0.1``: kind, part, micro-batch."""
    return " ".join(f"{one.kind[0].upper()}{one.part}.{one.microbatch}" for one in order)


@st.composite
def pipelines(draw: st.DrawFn, schedules: tuple[str, ...] = ALL) -> tuple[str, int, int, int]:
    """Schedule, stages, micro-batches, chunks."""
    schedule, stages = draw(st.sampled_from(schedules)), draw(st.integers(1, 9))
    chunks = draw(st.integers(2, 4)) if schedule == "interleaved" else 1
    microbatches = draw(st.integers(1, 24))
    if schedule == "interleaved" and microbatches > stages:
        microbatches -= microbatches % stages
    if schedule.startswith("dualpipe"):
        stages += stages % 2
        microbatches = 2 * (stages + microbatches)
    return schedule, stages, microbatches, chunks


# -- by hand ---------------------------------------------------------------------------------------


def test_1f1b_by_hand() -> None:
    assert short(one_f_one_b(1, 4, 4)) == "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 B1.2 B1.3"
    assert short(one_f_one_b(3, 4, 2)) == "F3.0 B3.0 F3.1 B3.1"


def test_gpipe_by_hand() -> None:
    assert short(gpipe(0, 2)) == "F0.0 F0.1 B0.1 B0.0"


def test_interleaved_by_hand() -> None:
    """Two stages, two parts each, two micro-batches: stage 1 takes one pass back after a round of forwards."""
    assert short(interleaved(0, 2, 2, 2)) == "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1"
    assert short(interleaved(1, 2, 2, 2)) == "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1"


def test_rounds_are_of_as_many_microbatches_as_stages_or_a_few_more() -> None:
    assert [round_size(4, m) for m in (1, 3, 4, 6, 8, 12, 10)] == [1, 3, 4, 6, 4, 4, 5]
    with pytest.raises(ValueError, match="9 micro-batches do not divide into 2 equal rounds"):
        round_size(4, 9)


def test_zb_h1_by_hand() -> None:
    """The last stage keeps as many weight gradients due as the first has forwards ahead."""
    first, last = orders("zb-h1", 2, 3)
    assert short(first) == "F0.0 F0.1 B0.0 W0.0 F0.2 B0.1 W0.1 B0.2 W0.2"
    assert short(last) == "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2"


def test_zbv_by_hand() -> None:
    assert short(zbv(0, 2, 3)) == "F0.0 F0.1 F0.2 F3.0 B3.0 F3.1 B3.1 B0.0 F3.2 B3.2 B0.1 B0.2"
    assert short(zbv(1, 2, 3)) == "F1.0 F2.0 F1.1 F2.1 B2.0 F1.2 B1.0 F2.2 B2.1 B1.1 B2.2 B1.2"


def test_placements() -> None:
    assert [Placement(3, 2).stage(k) for k in range(6)] == [0, 1, 2, 0, 1, 2]
    assert [Placement(3, 2, folded=True).stage(k) for k in range(6)] == [0, 1, 2, 2, 1, 0]
    assert Placement(3, 2, folded=True).by_stage((1, 2, 3, 4, 5, 6)) == (7, 7, 7)
    assert {placement(name, 4, 3).parts for name in FOLDED} == {8}
    two = placement("dualpipe", 4)
    assert (two.parts, two.depth, [two.stage(k) for k in range(8)]) == (8, 4, [0, 1, 2, 3, 3, 2, 1, 0])
    assert (placement("1f1b", 4, 3).parts, placement("interleaved", 4, 3).parts) == (4, 12)


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown 'zb-h9'; known: 1f1b, gpipe, interleaved"):
        orders("zb-h9", 2, 2)


def test_zb_h2_by_hand() -> None:
    """Twice the forwards of 1F1B ahead: the last stage never runs out of them."""
    first, last = orders("zb-h2", 2, 3)
    assert short(first) == "F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2"
    assert short(last) == "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 W1.0 W1.1 W1.2"


def test_dualpipe_by_hand() -> None:
    """Two stages and four micro-batches: 0 and 1 go down through parts 0 and 1, 2 and 3 up through parts 2 and 3."""
    first, last = (" | ".join(short(slot) for slot in stage) for stage in slots("dualpipe", 2, 4))
    assert first == ("F0.0 | F3.2 | F0.1 | B3.2 W3.2 | F3.3 B0.0 W0.0 | B3.3 W3.3 | B0.1 | W0.1")
    assert last == ("F2.2 | F1.0 | F2.3 | B1.0 W1.0 | F1.1 B2.2 W2.2 | B1.1 W1.1 | B2.3 | W2.3")


def test_dualpipe_v_is_dualpipe_on_half_as_many_stages() -> None:
    """The way back takes the place of the other way: as many passes per stage, in the same order of kinds."""
    wide, folded = slots("dualpipe", 8, 20)[:4], slots("dualpipe-v", 4, 10)
    for full, half in zip(wide, folded, strict=True):
        assert [[one.kind for one in slot] for slot in full] == [[one.kind for one in slot] for slot in half]


@pytest.mark.parametrize(
    ("schedule", "stages", "microbatches", "reason"),
    [
        ("dualpipe", 3, 8, "3 stages: dualpipe needs an even number"),
        ("dualpipe", 4, 9, "9 micro-batches: dualpipe needs an even number"),
        ("dualpipe", 4, 6, "6 micro-batches: dualpipe needs at least 2·pp = 8"),
        ("dualpipe-v", 4, 7, "7 micro-batches: dualpipe-v needs at least 2·pp = 8"),
    ],
)
def test_dualpipe_refuses_what_it_cannot_run(
    schedule: str, stages: int, microbatches: int, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        orders(schedule, stages, microbatches)


# -- promises --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(pipelines())
def test_every_stage_runs_every_pass_of_its_parts_once(case: tuple[str, int, int, int]) -> None:
    schedule, stages, microbatches, chunks = case
    place = placement(schedule, stages, chunks)
    kinds = (FORWARD, BACKWARD, WEIGHT) if schedule in SPLIT else (FORWARD, BACKWARD)
    for stage, order in enumerate(orders(schedule, stages, microbatches, chunks)):
        each = microbatches // place.copies
        due = [
            Pass(k, p, m + each * (p // place.depth))
            for k in kinds
            for p in place.on_stage(stage)
            for m in range(each)
        ]
        assert sorted(order) == sorted(due)


@settings(deadline=None)
@given(pipelines())
def test_no_stage_waits_for_ever(case: tuple[str, int, int, int]) -> None:
    schedule, stages, microbatches, chunks = case
    remaining = [list(stage) for stage in slots(schedule, stages, microbatches, chunks)]
    depth, done = placement(schedule, stages, chunks).depth, set[Pass]()
    while any(remaining):
        ready = [q for q in remaining if q and all(one.needs(depth) in {None, *q[0], *done} for one in q[0])]
        assert ready, (case, [short(q[0]) for q in remaining if q])
        for queue in ready:
            done.update(queue.pop(0))


def test_orders_that_wait_for_each_other_are_refused() -> None:
    first: Order = (Pass(BACKWARD, 0, 0), Pass(FORWARD, 0, 0))
    with pytest.raises(ValueError, match="wait for each other"):
        filled([first, one_f_one_b(1, 2, 1)], 2, 2)


# -- memory ----------------------------------------------------------------------------------------


def layout(schedule: str, stages: int, microbatches: int, chunks: int = 1) -> Layout:
    place = placement(schedule, stages, chunks)
    one_each = (1,) * place.parts
    return Layout(
        tp=1, cp=1, pp=stages, dp=1, stage_layers=place.by_stage(one_each), micro_batch=1,
        microbatches=microbatches, sequence_parallel=False, data_sharding="zero-1", schedule=schedule,
        recompute=Recompute("none", (0,) * stages), part_layers=one_each,
    )  # fmt: skip


@settings(deadline=None)
@given(pipelines(("1f1b", "gpipe")))
def test_closed_forms_of_what_is_in_flight_are_those_of_the_order(case: tuple[str, int, int, int]) -> None:
    schedule, stages, microbatches, _ = case
    plan = layout(schedule, stages, microbatches)
    for stage, order in enumerate(plan.orders):
        assert plan.in_flight(stage) == held_at_most(order, (1.0,) * stages)


@settings(deadline=None)
@given(pipelines(("interleaved",)))
def test_interleaved_holds_2_p_minus_r_minus_1_plus_v_minus_1_p_plus_1_chunks(
    case: tuple[str, int, int, int],
) -> None:
    schedule, p, m, v = case
    plan = layout(schedule, p, m, v)
    for r in range(p):
        size = min(p, m)  # of a round
        chunks = min(m * v, 2 * (p - r - 1) + (v - 1) * size + 1)
        assert plan.in_flight(r) == pytest.approx(chunks / v, rel=1e-12)


@pytest.mark.parametrize("stages", range(2, 17))
def test_controllable_memory_is_a_half_and_a_third_of_1f1b(stages: int) -> None:
    """Published peaks: V-half p/2 + 1, V-min (p + 4)/3, rounded up to half a micro-batch; ZB-H1 and ZBV p."""
    peak = {
        name: max(plan.in_flight(stage) for stage in range(stages))
        for name in ("1f1b", "zb-h1", "zbv", "v-half", "v-min")
        for plan in (layout(name, stages, 4 * stages),)
    }
    assert peak["1f1b"] == peak["zb-h1"] == peak["zbv"] == stages
    assert stages / 2 <= peak["v-half"] <= stages / 2 + 1
    assert stages / 3 <= peak["v-min"] <= Fraction(stages + 4, 3) + Fraction(1, 2)
    assert peak["v-min"] <= peak["v-half"] <= stages


@pytest.mark.parametrize("stages", range(2, 17, 2))
def test_dualpipe_holds_p_plus_1_activations_on_every_stage_and_zb_h2_2p_minus_1(stages: int) -> None:
    """Published peaks, each of the size of one part; a stage of DualPipe holds parts of two models, so the two
    halves of its layers; DualPipeV's p counts the parts of its model, two for each of its stages."""
    two_way = layout("dualpipe", stages, 4 * stages)
    assert {2 * two_way.in_flight(s) for s in range(stages)} == {stages + 1}
    folded = layout("dualpipe-v", stages // 2, 4 * stages)
    assert {2 * folded.in_flight(s) for s in range(stages // 2)} == {stages + 1}
    early = layout("zb-h2", stages, 4 * stages)
    assert {early.in_flight(s) for s in range(stages)} == {2 * stages - 1}


def test_a_long_pipeline_nears_the_half_and_the_third() -> None:
    for name, share in (("v-half", 1 / 2), ("v-min", 1 / 3)):
        plan = layout(name, 64, 128)
        assert max(plan.in_flight(s) for s in range(64)) / 64 == pytest.approx(share, abs=0.02)


@settings(deadline=None)
@given(pipelines(("zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe-v")))
def test_few_microbatches_are_all_in_flight_at_most(case: tuple[str, int, int, int]) -> None:
    schedule, stages, microbatches, _ = case
    plan = layout(schedule, stages, microbatches)
    assert all(1.0 <= plan.in_flight(stage) <= microbatches for stage in range(stages))


def test_the_output_layer_waits_for_its_own_part_only() -> None:
    assert layout("interleaved", 4, 8, 2).head_in_flight == 1
    assert layout("1f1b", 4, 8).head_in_flight == 1
    assert layout("gpipe", 4, 8).head_in_flight == 8
    assert layout("zb-h1", 4, 8).head_in_flight == 1
    assert [layout(name, 4, 8).head_stage for name in ("zb-h1", "interleaved", "zbv")] == [3, 3, 0]
