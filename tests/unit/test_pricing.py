"""Ops become seconds, and compute beside collectives gets slower."""

from __future__ import annotations

import pytest
from fakes.machines import cluster, with_stack
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.cluster import Cluster
from sim.ops import Collective, Group, Host, Launches
from sim.parallel.builder import ProgramBuilder
from sim.pricing import Price, price
from sim.program import COLLECTIVE, COMPUTE, Program, Work

KAPPA = 1.25
MACHINE = with_stack(cluster(), overlap_slowdown=KAPPA, kernel_gap_s=1.0, fixed_step_s=3.0)
DP = Group("dp", 8, 8)


def gather(seconds: float, *, overlapped: bool = False, machine: Cluster = MACHINE) -> Work:
    """An all-gather counted so often that it takes ``seconds``."""
    op = Collective("all_gather", 1e9, DP, overlapped)
    return Work(op, "data_parallel", seconds / machine.collectives.seconds("all_gather", 1e9, 8, 8))


def beside(compute_s: tuple[float, ...], gathers_s: tuple[float, ...]) -> tuple[Price, ...]:
    """Prices of compute tasks and gathers that share one window."""
    builder = ProgramBuilder(1)
    for i, seconds in enumerate(compute_s):
        builder.add(("c", i), 0, COMPUTE, "forward", "c", (Work(Launches(seconds), "gemm"),), window="w")
    for i, seconds in enumerate(gathers_s):
        builder.add(("g", i), 0, COLLECTIVE, "gather", "g", (gather(seconds),), window="w")
    return price(builder.build(), MACHINE)


@pytest.mark.parametrize(
    ("compute_s", "gather_s", "expected"),
    [
        (10.0, 5.0, 11.0),  # 5 s at 4/5 of the speed lose one second
        (10.0, 12.5, 12.5),  # slowed all along
        (10.0, 50.0, 12.5),  # what does not fit is not interference
        (10.0, 0.0, 10.0),
    ],
)
def test_compute_is_slowed_while_collectives_of_its_window_run(
    compute_s: float, gather_s: float, expected: float
) -> None:
    compute, other = beside((compute_s,), (gather_s,))
    assert compute.seconds == pytest.approx(expected)
    assert sum(p.seconds for p in compute.parts if p.cause == "interference") == pytest.approx(
        expected - compute_s
    )
    assert other.seconds == pytest.approx(gather_s)


def test_tasks_of_one_window_share_the_slowdown_by_their_length() -> None:
    one, two, *_ = beside((4.0, 6.0), (2.0, 3.0))
    assert (one.seconds, two.seconds) == pytest.approx((4.4, 6.6))


def test_other_windows_and_no_window_are_left_alone() -> None:
    builder = ProgramBuilder(1)
    for window in (None, "other", "w"):
        work = (Work(Launches(10.0), "gemm"),)
        builder.add(("c", window), 0, COMPUTE, "forward", "c", work, window=window)
    builder.add(("g",), 0, COLLECTIVE, "gather", "g", (gather(5.0),), window="w")
    assert [p.seconds for p in price(builder.build(), MACHINE)][:3] == pytest.approx([10.0, 10.0, 11.0])


def inside(compute_s: float, exchange_s: float) -> Price:
    """One task whose exchanges are cut into chunks under its own matrix products."""
    builder = ProgramBuilder(1)
    work = (Work(Launches(compute_s), "gemm"), gather(exchange_s, overlapped=True))
    builder.add(("c",), 0, COMPUTE, "forward", "c", work)
    return price(builder.build(), MACHINE)[0]


@given(compute_s=st.floats(0.01, 100.0), exchange_s=st.floats(0.0, 300.0))
def test_exchanges_inside_a_task_cost_what_they_would_beside_it(compute_s: float, exchange_s: float) -> None:
    """Both run at once: compute stretched as in a window, then the part of the exchange that outlasts it."""
    stretched = min(KAPPA * compute_s, compute_s + (1 - 1 / KAPPA) * exchange_s)
    assert inside(compute_s, exchange_s).seconds == pytest.approx(max(stretched, exchange_s))


def test_exchanges_inside_a_task_keep_their_bytes() -> None:
    once = MACHINE.collectives.seconds("all_gather", 1e9, 8, 8)
    sent = {p.cause: p.bytes for p in inside(10.0, 5.0).parts if p.bytes}
    assert sent == {"data_parallel": pytest.approx(5.0 / once * 1e9 * 7 / 8)}


def test_the_host_takes_what_the_stack_says() -> None:
    builder = ProgramBuilder(1)
    builder.add(("h",), 0, COMPUTE, "host", "h", (Work(Host(), "host"),))
    program: Program = builder.build()
    assert price(program, MACHINE)[0].seconds == 3.0
