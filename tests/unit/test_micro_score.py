"""How rows of the micro-ledger are scored: signs, floors, harnesses, and what leaving out leaves out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hwmodels import catalog
from hwmodels.kernels import KernelModel
from sim.ledger import micro_machines
from sim.ledger.micro import MicroReport, MicroStatistic, ScoredRow, score
from sim.ledger.micro_left_out import leave_one_out
from sim.ledger.micro_machines import Machines, plain_stack
from sim.ledger.micro_predict import predict
from sim.ledger.micro_row import Attention, Collective, Gemm, Message, MicroFile, MicroRow, Stream, Subject
from sim.ledger.run import Source

SHAPE = Gemm("mi300x", "bf16", ((4096, 4864, 8192),))


def made(
    subject: Subject | None = SHAPE, value: float = 1e12, unit: str = "FLOP/s", **changes: object
) -> MicroRow:
    row = MicroRow("gemm", subject, value, unit, "measured", "high", "check", Source("a paper"), "x.yaml:1")
    return replace(row, **changes)  # type: ignore[arg-type]


def kernel_s() -> float:
    model = KernelModel(catalog.gpu("mi300x"), plain_stack("mi300x"))
    return model.gemm_s(4096, 4864, 8192, "bf16")


def test_positive_is_too_fast_whatever_the_source_printed() -> None:
    rate = ScoredRow(made(value=100.0), 110.0)
    time = ScoredRow(made(value=1.10, unit="s"), 1.0)
    slowdown = ScoredRow(made(value=1.6, unit="x"), 1.2)
    assert rate.error == pytest.approx(math.log(1.1))
    assert time.error == pytest.approx(math.log(1.1))
    assert slowdown.error is not None
    assert slowdown.error > 0


def test_a_floor_counts_only_where_the_prediction_lies_below_it() -> None:
    floor = made(value=100.0, kind="floor")
    assert ScoredRow(floor, 150.0).error is None
    assert ScoredRow(floor, 90.0).error == pytest.approx(math.log(0.9))
    assert not floor.scored


def test_a_peak_never_counts() -> None:
    assert ScoredRow(made(value=100.0, kind="peak"), 50.0).error is None


def test_a_gemm_benchmark_runs_without_a_framework() -> None:
    row = made(unit="s")
    assert predict(row, Machines()) == pytest.approx(kernel_s(), rel=1e-12)


def test_the_launch_inside_the_events_adds_to_every_call() -> None:
    row = made(unit="s", overhead_s=2e-5)
    assert predict(row, Machines()) == pytest.approx(kernel_s() + 2e-5, rel=1e-12)


def test_a_host_that_cannot_issue_faster_hides_the_kernel() -> None:
    assert predict(made(unit="s", issue_s=1.0), Machines()) == 1.0
    assert predict(made(unit="s", issue_s=1e-9), Machines()) == pytest.approx(kernel_s(), rel=1e-12)


def test_a_rate_is_work_over_the_same_seconds() -> None:
    assert predict(made(), Machines()) == pytest.approx(SHAPE.flops / kernel_s(), rel=1e-12)


def test_half_the_locked_clock_takes_twice_as_long() -> None:
    slow, fast = (made(replace(SHAPE, clock_Hz=clock), unit="s") for clock in (5e8, 1e9))
    assert predict(slow, Machines()) == pytest.approx(2 * predict(fast, Machines()), rel=1e-9)


def test_messages_pay_one_latency_and_their_bytes() -> None:
    nic = catalog.nic("connectx-7")
    row = made(Message("connectx-7", 1e6, 8), unit="s")
    assert predict(row, Machines()) == pytest.approx(nic.latency_s + 8e6 / nic.usable_bandwidth_Bps)


def test_an_unknown_gpu_is_a_row_without_a_prediction() -> None:
    (scored,) = score([made(replace(SHAPE, gpu="mi999"))], Machines())
    assert scored.predicted is None
    assert scored.error is None
    assert "mi999" in scored.failure


def test_statistics_by_hand() -> None:
    rows = [ScoredRow(made(value=100.0), 100.0 * math.exp(error)) for error in (0.1, -0.3)]
    statistic = MicroStatistic.of(rows)
    assert statistic is not None
    assert statistic.mean_absolute == pytest.approx(0.2)
    assert statistic.bias == pytest.approx(-0.1)
    assert statistic.worst == pytest.approx(-0.3)
    assert MicroStatistic.of([]) is None


def test_fit_rows_floors_and_what_is_set_aside_are_no_checks() -> None:
    aside = made(None, set_aside="a bug")
    rows = (made(), made(split="fit"), made(kind="floor"), aside)
    report = MicroReport((MicroFile("x", "gemm", rows),), score(rows, Machines()), ())
    assert len(report.check) == 1
    assert len(report.measured) == 2
    assert report.set_aside == (aside,)
    assert report.summary["set_aside"] == 1


def test_left_out_attention_does_not_see_the_table_of_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = [
        made(Attention(gpu, "forward", "causal", 8192, 128, 16, 16, 16)) for gpu in ("mi300x", "mi355x")
    ]

    def predictions(own_scale: float) -> dict[str, float | None]:
        def stack(gpu: str) -> object:
            profile = plain_stack(gpu)
            rates = profile.attention_rates
            if gpu == "mi300x":
                rates = tuple(replace(rate, flops=rate.flops * own_scale) for rate in rates)
            return replace(profile, attention_rates=rates)

        monkeypatch.setattr("sim.ledger.micro_left_out.plain_stack", stack)
        monkeypatch.setattr(micro_machines, "plain_stack", stack)
        return {row.machine: row.predicted for row in leave_one_out(curves)}

    plain, doubled = predictions(1.0), predictions(2.0)
    assert plain["mi300x"] == pytest.approx(doubled["mi300x"])
    assert doubled["mi355x"] == pytest.approx(2 * (plain["mi355x"] or 0.0))


def test_left_out_streams_take_the_share_of_the_others() -> None:
    rows = [made(Stream(gpu, "triad"), unit="B/s") for gpu in ("mi300x", "mi300a")]
    found = {row.machine: row.predicted for row in leave_one_out(rows)}
    share = plain_stack("mi300a").stream_efficiency
    assert found["mi300x"] == pytest.approx(catalog.gpu("mi300x").hbm_bandwidth_Bps * share)


def test_left_out_all_reduce_keeps_only_the_link_rate() -> None:
    nodes = ("mi300x-8x400g", "mi350x-8x400g")
    rows = [made(Collective(node, "all_reduce", 8, 1, 2.0**34), unit="B/s") for node in nodes]
    found = {row.machine: row.predicted for row in leave_one_out(rows)}
    share = catalog.node("mi350x-8x400g").scale_up.usable_bandwidth_Bps / 76.5e9
    assert found["mi300x"] == pytest.approx(7 * 64e9 * share, rel=0.01)


def test_a_curve_of_a_kind_of_its_own_is_not_predicted_from_another_kind() -> None:
    nodes = ("mi300x-8x400g", "a100-8x200g")
    assert leave_one_out([made(Collective(n, "all_reduce", 8, 1, 2.0**30), unit="B/s") for n in nodes]) == ()
