"""How rows of the micro-ledger are scored: signs, floors, harnesses, and what leaving out leaves out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hwmodels import catalog
from hwmodels.kernels import KernelModel
from hwmodels.protocol import Protocols
from sim.ledger.least_squares import fitted
from sim.ledger.micro import MicroReport, MicroStatistic, ScoredRow, score
from sim.ledger.micro_left_out import known_by_links, leave_one_out
from sim.ledger.micro_machines import Machines, plain_stack
from sim.ledger.micro_predict import predict
from sim.ledger.micro_refit import AttentionConstants, attention_constants, protocols
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


LENGTHS = (1024, 2048, 4096, 16384)


def attention_rows(gpu: str, share: float, ramp: tuple[float, float]) -> list[MicroRow]:
    """Rates of a kernel with these constants, masked and not, as a benchmark without overhead would print them."""
    machines = AttentionConstants({"forward": share}, {"forward": ramp}).machines([gpu])
    rows = [
        made(Attention(gpu, "forward", mask, s, 128, 16, 16, 16))
        for mask in ("causal", "full")
        for s in LENGTHS
    ]
    return [replace(row, value=predict(row, machines)) for row in rows]


def test_attention_constants_are_found_again() -> None:
    found = attention_constants(attention_rows("mi300x", 0.7, (600.0, 150.0)))
    assert found.share["forward"] == pytest.approx(0.7, rel=1e-6)
    assert found.ramp["forward"] == pytest.approx((600.0, 150.0), rel=1e-5)
    assert "backward" not in found.share  # nothing to fit it on


def test_left_out_attention_knows_the_other_gpus_constants_and_nothing_of_its_own() -> None:
    rows = {
        "mi300x": attention_rows("mi300x", 0.9, (100.0, 800.0)),
        "mi355x": attention_rows("mi355x", 0.5, (700.0, 90.0)),
    }
    scored = leave_one_out([*rows["mi300x"], *rows["mi355x"]])
    for gpu, share, ramp in (("mi300x", 0.5, (700.0, 90.0)), ("mi355x", 0.9, (100.0, 800.0))):
        found = [row.predicted for row in scored if row.machine == gpu]
        assert found == pytest.approx([row.value for row in attention_rows(gpu, share, ramp)], rel=1e-5)


def test_a_direction_that_only_one_gpu_has_is_not_predicted() -> None:
    back = made(Attention("mi355x", "backward", "causal", 8192, 128, 16, 16, 16), value=9e14)
    scored = leave_one_out([*attention_rows("mi300x", 0.8, (300.0, 400.0)), back])
    assert scored == ()


def curve(node: str, shared: Protocols) -> list[MicroRow]:
    """An all-reduce of eight GPUs under the protocols ``shared``, times from 8 kB to 16 GiB."""
    rows = [made(Collective(node, "all_reduce", 8, 1, 2.0**p), unit="s") for p in range(13, 35)]
    return [replace(row, value=predict(row, Machines(protocols={node: shared}))) for row in rows]


def changed_protocols(low: float, middle: float, middle_halves: float, full_halves: float) -> Protocols:
    ll, ll128, simple = catalog.protocols().inside
    inside = (
        replace(ll, bandwidth=low),
        replace(ll128, bandwidth=middle, halves=middle_halves),
        replace(simple, halves=full_halves),
    )
    return replace(catalog.protocols(), inside=inside)


def test_protocol_constants_are_found_again() -> None:
    truth = changed_protocols(0.2, 0.6, 0.4, 1.4)
    found = protocols(curve("mi300x-8x400g", truth) + curve("a100-8x200g", truth))
    for one, other in zip(found.inside, truth.inside, strict=True):
        assert one.bandwidth == pytest.approx(other.bandwidth, rel=1e-3)
        assert one.halves == pytest.approx(other.halves, rel=1e-3)
    assert found.across == truth.across


def test_left_out_all_reduce_takes_the_protocols_of_the_others() -> None:
    mine, theirs = changed_protocols(0.5, 0.9, 0.3, 0.8), changed_protocols(0.2, 0.6, 0.4, 1.4)
    scored = leave_one_out([*curve("mi300x-8x400g", mine), *curve("a100-8x200g", theirs)])
    found = [row.predicted for row in scored if row.machine == "mi300x"]
    assert found == pytest.approx([row.value for row in curve("mi300x-8x400g", theirs)], rel=1e-3)


def test_least_squares_of_a_line_in_logarithms() -> None:
    """a·x^b through three points is solved exactly; a fourth one off the curve is shared out."""
    points = [(1.0, 2.0), (2.0, 16.0), (4.0, 128.0)]

    def residuals(parameters: tuple[float, ...]) -> list[float]:
        a, b = parameters
        return [math.log(a * x**b / y) for x, y in points]

    assert fitted(residuals, (1.0, 1.0)) == pytest.approx((2.0, 3.0), rel=1e-6)
    assert fitted(lambda p: [p[0] - 1.0, p[0] - 3.0], (9.0,)) == pytest.approx((2.0,), rel=1e-4)


def test_least_squares_end_where_nothing_gains() -> None:
    """A parameter without effect stays; no endless search."""
    found = fitted(lambda p: [math.log(p[0])], (5.0, 7.0))
    assert found[0] == pytest.approx(1.0, abs=1e-6)
    assert found[1] == pytest.approx(7.0)


def test_left_out_streams_take_the_share_of_the_others() -> None:
    rows = [made(Stream(gpu, "triad"), unit="B/s") for gpu in ("mi300x", "mi300a")]
    found = {row.machine: row.predicted for row in leave_one_out(rows)}
    share = plain_stack("mi300a").stream_efficiency
    assert found["mi300x"] == pytest.approx(catalog.gpu("mi300x").hbm_bandwidth_Bps * share)


def test_known_by_links_keeps_only_the_link_rate() -> None:
    nodes = ("mi300x-8x400g", "mi350x-8x400g")
    rows = [row for node in nodes for row in curve(node, catalog.protocols())]
    largest = {row.machine: row for row in known_by_links(rows)}["mi300x"]  # the last: 16 GiB
    share = catalog.node("mi350x-8x400g").scale_up.usable_bandwidth_Bps / 76.5e9
    expected_s = 1.75 * 2.0**34 / (7 * 64e9 * share)
    assert largest.predicted == pytest.approx(expected_s, rel=0.01)


def test_a_node_of_a_kind_of_its_own_is_not_known_by_links() -> None:
    nodes = ("mi300x-8x400g", "a100-8x200g")
    rows = [made(Collective(n, "all_reduce", 8, 1, 2.0**30), unit="B/s", value=3e11) for n in nodes]
    assert known_by_links(rows) == ()


def test_a_lone_curve_is_not_left_out() -> None:
    assert leave_one_out(curve("mi300x-8x400g", catalog.protocols())) == ()


@pytest.mark.parametrize(("mask", "head_dim"), [("full", 128), ("causal", 64), ("full", 64)])
def test_mask_and_width_reach_the_kernel_model(mask: str, head_dim: int) -> None:
    what = Attention("mi300x", "forward", mask, 2048, head_dim, 16, 16, 16)
    model = KernelModel(catalog.gpu("mi300x"), plain_stack("mi300x"))
    expected = model.attention_rate_flops(2048, head_dim, backward=False, causal=mask == "causal")
    assert predict(made(what), Machines()) == pytest.approx(expected, rel=1e-12)
