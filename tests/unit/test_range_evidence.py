"""Kinds of cases, their kin and their ranges, on made-up residuals."""

from __future__ import annotations

import math

import pytest
from fakes.residuals import case, residual

from sim.range.evidence import (
    GPU,
    KINDS,
    MODEL,
    NEEDED,
    PLAN,
    PRECISION,
    SAME,
    SCALE,
    STACK,
    TUNED_KINDS,
    UNTUNED,
    Evidence,
    LogRange,
    blocks,
    expected,
    nine_tenths,
)


@pytest.mark.parametrize(
    ("count", "rank"),
    [(1, 1), (8, 8), (9, 9), (10, 10), (18, 18), (19, 18), (29, 27), (99, 90)],
)
def test_nine_tenths_is_the_conformal_rank_whatever_the_signs(count: int, rank: int) -> None:
    surprises = [(-1) ** n * float(n) for n in range(count, 0, -1)]
    assert nine_tenths(surprises) == rank


def test_what_kin_suggest_counts_stacks_alike_and_is_drawn_to_zero() -> None:
    rows = [residual(-0.06, stack="a")] * 9 + [residual(0.02, stack="b")]
    assert expected(rows) == pytest.approx(-0.02 * 10 / 11)
    assert expected([residual(0.1)]) == pytest.approx(0.05)
    assert expected([]) == 0.0


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, SAME),
        ({"gpus": 32}, SAME),
        ({"sequence_length": 512}, SAME),
        ({"gpus": 128}, SCALE),
        ({"gpus": 4}, SCALE),
        ({"model": "mpt-7b"}, MODEL),
        ({"model": "mpt-7b", "gpus": 128}, MODEL),
        ({"tp": 2}, PLAN),
        ({"pp": 2, "schedule": "zbv", "model": "mpt-7b"}, PLAN),
        ({"data_sharding": "fsdp"}, PLAN),
        ({"precision": "fp8"}, PRECISION),
        ({"precision": "fp8", "tp": 2}, PRECISION),
        ({"stack": "mine"}, STACK),
        ({"stack": "mine", "precision": "fp8"}, STACK),
        ({"gpu": "mi455x"}, GPU),
        ({"gpu": "mi325x, changed"}, GPU),
        ({"tuned": False}, UNTUNED),
    ],
)
def test_the_kind_is_the_hardest_thing_that_is_new(changes: dict[str, object], kind: str) -> None:
    evidence = Evidence((residual(gpus=8), residual(gpus=64), residual(gpu="h100-sxm", stack="other")))
    assert evidence.kind(case(**changes)) == kind


def test_untuned_runs_make_nothing_known() -> None:
    evidence = Evidence((residual(stack="slow", tuned=False), residual(gpu="h100-sxm", stack="other")))
    assert evidence.kind(case(stack="slow")) == GPU


def test_kin_share_all_but_what_is_new() -> None:
    here = residual(0.01)
    scale = residual(0.02, gpus=64)
    model = residual(0.03, model="mpt-7b")
    precision = residual(0.04, precision="fp8")
    plan = residual(0.08, tp=8)
    stack = residual(0.05, stack="other")
    gpu = residual(0.06, gpu="h100-sxm", stack="third")
    slow = residual(0.07, stack="slow", tuned=False)
    evidence = Evidence((here, scale, model, precision, stack, gpu, slow, plan))
    assert evidence.kin(SAME, case()) == [here, scale]
    assert evidence.kin(SCALE, case(gpus=128)) == [here, scale]
    assert evidence.kin(SCALE, case(gpus=32)) == [
        here
    ]  # never from the larger side while there is a smaller one
    assert evidence.kin(SCALE, case(gpus=2)) == [here, scale]
    assert evidence.kin(MODEL, case(model="new")) == [here, scale, model]
    assert evidence.kin(MODEL, case()) == [model]
    assert evidence.kin(PLAN, case(pp=2, schedule="1f1b")) == [here, scale, model, plan]
    assert evidence.kin(PLAN, case(tp=2)) == [here, scale, model]  # the degree makes no new plan
    assert evidence.kin(PRECISION, case()) == [precision]
    assert evidence.kin(STACK, case()) == [stack]
    assert evidence.kin(GPU, case()) == [gpu]
    assert evidence.kin(UNTUNED, case(tuned=False)) == [slow]


def test_a_surprise_is_what_hidden_kin_did_not_suggest() -> None:
    evidence = Evidence(
        (residual(0.02, model="a"), residual(0.06, model="b"), residual(0.0, "fit", split="fit"))
    )
    # a: kin b and fit (llama) suggest 0.03 * 2/3; b: kin a and fit 0.01 * 2/3
    assert evidence.surprises[MODEL] == pytest.approx((0.02 - 0.02, 0.06 - 0.02 / 3))
    assert evidence.surprises[GPU] == ()


def test_a_range_holds_its_prediction_and_moves_against_the_bias() -> None:
    fast = LogRange(SAME, bias=-0.05, half_width=0.1, cases=20)
    low, high = fast.around(2.0)
    assert (low, high) == pytest.approx((2.0 * math.exp(-0.05), 2.0 * math.exp(0.15)))
    assert LogRange(SAME, -0.3, 0.1, 20).around(2.0)[0] == 2.0
    assert LogRange(SAME, 0.3, 0.1, 20).around(2.0)[1] == 2.0
    assert fast.holds(-0.14)
    assert not fast.holds(-0.16)
    assert not fast.holds(0.06)


def many(count: int, spread: float, **changes: object) -> list:
    return [residual(spread * (-1) ** n, f"{changes}{n}", **changes) for n in range(count)]


def spread(count: int, size: float) -> tuple[float, ...]:
    return (size,) * count


def judged_together(**surprises: tuple[float, ...]) -> list[str]:
    return [" ".join(block.kinds) for block in blocks(surprises)]


def test_kinds_in_order_are_judged_apart() -> None:
    assert judged_together(a=spread(9, 0.1), b=spread(9, 0.1), c=spread(20, 0.2)) == ["a", "b", "c"]


def test_a_kind_with_few_surprises_joins_the_next_harder_one() -> None:
    assert judged_together(a=spread(8, 0.1), b=spread(9, 0.2)) == ["a b"]
    assert judged_together(a=(), b=spread(4, 0.1), c=spread(4, 0.1), d=spread(4, 0.1)) == ["a b c d"]
    assert judged_together(a=spread(9, 0.1), b=spread(8, 0.2)) == ["a b"]  # nothing harder than b
    assert judged_together(a=(), b=()) == ["a b"]


def test_kinds_out_of_order_are_pooled() -> None:
    assert judged_together(a=spread(9, 0.1), b=spread(20, 0.3), c=spread(20, 0.2)) == ["a", "b c"]
    assert judged_together(a=spread(9, 0.2), b=spread(20, 0.3), c=spread(200, 0.1)) == ["a b c"]
    assert judged_together(a=spread(9, 0.2), b=spread(8, 0.1), c=spread(9, 0.3)) == ["a", "b c"]


def test_no_kind_is_narrower_than_an_easier_one() -> None:
    rows = [*many(20, 0.2), *many(20, 0.01, model="mpt-7b"), *many(20, 0.01, stack="other", gpu="h100-sxm")]
    widths = [Evidence(tuple(rows)).half_width(kind)[0] for kind in TUNED_KINDS]
    assert widths == sorted(widths)


def test_too_few_surprises_in_all_give_no_range() -> None:
    assert Evidence(tuple(many(NEEDED - 1, 0.01))).half_width(SAME) is None
    assert Evidence(tuple(many(NEEDED, 0.01))).half_width(SAME)[1] == NEEDED


def test_without_evidence_there_is_no_range() -> None:
    assert Evidence(()).judge(case()) is None
    assert Evidence(tuple(many(20, 0.1))).judge(case(tuned=False)) is None


def test_untuned_cases_are_judged_by_untuned_runs() -> None:
    slow = [row for n in range(6) for row in many(3, 0.5, stack=f"slow{n}", tuned=False)]
    evidence = Evidence((*many(20, 0.01), *slow))
    assert evidence.judge(case(tuned=False)).half_width > 0.4
    assert evidence.judge(case()).half_width < 0.02


def test_models_with_experts_have_evidence_of_their_own_once_there_is_enough() -> None:
    dense = many(20, 0.01)
    some, enough = many(NEEDED - 1, 0.3, experts=True), many(NEEDED, 0.3, experts=True)
    with_some, with_enough = Evidence((*dense, *some)), Evidence((*dense, *enough))
    assert with_some.alike(case(experts=True)) is with_some
    assert {row.case.experts for row in with_some.alike(case()).rows} == {False}
    assert with_enough.judge(case(experts=True)).half_width > 0.3
    assert with_enough.judge(case()).half_width < 0.02


def test_beyond_the_largest_job_the_range_grows_with_each_doubling() -> None:
    rows = many(20, 0.05) + [residual(0.05, f"{n}", model=f"m{n}", gpus=8) for n in range(9)]
    rows += [residual(0.05 + 0.02 * 3, f"{n} large", model=f"m{n}", gpus=64) for n in range(9)]
    evidence = Evidence(tuple(rows))
    assert evidence.drift_per_doubling == pytest.approx(0.02)
    assert evidence.drift(case(gpus=64)) == evidence.drift(case(gpus=1)) == 0.0
    inside, outside = (evidence.judge(case(gpu="new", gpus=gpus)).half_width for gpus in (64, 1024))
    assert outside - inside == pytest.approx(4 * 0.02)


def test_series_over_less_than_a_factor_of_four_say_nothing_about_drift() -> None:
    assert Evidence((residual(0.3), residual(0.0, gpus=16))).drift_per_doubling == 0.0


def test_what_no_run_has_is_named() -> None:
    evidence = Evidence((residual(), residual(gpus=512, tp=8, precision="fp8", sequence_length=8192)))
    assert evidence.beyond(case(tp=8, gpus=512)) == ()
    found = evidence.beyond(
        case(gpu="mi455x", precision="mxfp4", gpus=16384, tp=16, cp=2, experts=True, data_sharding="fsdp")
    )
    assert found == (
        "no measured run on mi455x",
        "no measured run in mxfp4",
        "no measured run with fsdp",
        "no measured run of a model with experts",
        "16,384 GPUs, measured up to 512",
        "tp 16, measured up to 8",
        "cp 2, measured up to 1",
    )


def test_the_words_name_kind_and_number_of_runs() -> None:
    assert LogRange(MODEL, 0.0, 0.1, 38).words.startswith("new model: ")
    assert "38" in LogRange(MODEL, 0.0, 0.1, 38).words
    assert len(set(KINDS)) == 8
