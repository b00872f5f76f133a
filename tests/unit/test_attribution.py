"""Whose fault each second is, on timelines small enough to check by eye."""

from __future__ import annotations

import pytest

from sim.attribution import breakdown, hidden, last_role, records
from sim.engine.events import run
from sim.engine.timeline import Timeline
from sim.parallel.builder import ProgramBuilder
from sim.pricing import Part, Price
from sim.program import COLLECTIVE, COMPUTE, SEND


def priced(**seconds: float) -> Price:
    """A price of ``cause=seconds`` parts; each part carries its seconds as FLOPs and bytes too."""
    return Price(sum(seconds.values()), tuple(Part(c, s, s, 10 * s) for c, s in seconds.items()))


def played(builder: ProgramBuilder, prices: list[Price]) -> Timeline:
    return run(builder.build(), [p.seconds for p in prices])


def test_work_is_charged_to_its_own_causes() -> None:
    builder = ProgramBuilder(1)
    builder.add(("a",), 0, COMPUTE, "forward", "a", ())
    builder.add(("b",), 0, COMPUTE, "backward", "b", ())
    prices = [priced(gemm=2.0, launch=0.5), priced(gemm=4.0, recompute=1.0)]
    timeline = played(builder, prices)
    assert breakdown(timeline, prices) == {"gemm": 6.0, "launch": 0.5, "recompute": 1.0}
    assert hidden(timeline, prices) == {}


def test_a_wait_is_charged_to_the_collective_that_ended_it_and_the_rest_is_hidden() -> None:
    """A gather of 3 s under 2 s of compute: 2 s hidden, 1 s in the step."""
    builder = ProgramBuilder(1)
    builder.add(("g",), 0, COLLECTIVE, "gather", "gather", (), wait_cause="data_parallel")
    builder.add(("a",), 0, COMPUTE, "forward", "a", ())
    builder.add(("b",), 0, COMPUTE, "forward", "b", (), waits=(("g",),))
    prices = [priced(data_parallel=3.0), priced(gemm=2.0), priced(gemm=1.0)]
    timeline = played(builder, prices)
    assert timeline.makespan_s == 4.0
    assert breakdown(timeline, prices) == {"gemm": 3.0, "data_parallel": 1.0}
    assert hidden(timeline, prices) == {"data_parallel": 2.0}


def test_a_wait_for_queued_collectives_is_charged_to_each_while_it_ran() -> None:
    builder = ProgramBuilder(1)
    builder.add(("r",), 0, COLLECTIVE, "reduce", "first", ())
    builder.add(("t",), 0, COLLECTIVE, "reduce", "second", ())
    builder.add(("o",), 0, COMPUTE, "optimizer", "optimizer", (), waits=(("t",),))
    prices = [priced(data_parallel=2.0), priced(pipeline=1.0), priced(optimizer=0.5)]
    assert breakdown(played(builder, prices), prices) == {
        "pipeline": 1.0,
        "data_parallel": 2.0,
        "optimizer": 0.5,
    }


def test_waiting_for_another_stage_is_bubble_and_for_its_message_pipeline() -> None:
    builder = ProgramBuilder(2)
    builder.add(("f",), 0, COMPUTE, "forward", "f", ())
    builder.add(("s",), 0, SEND, "send", "s", (), waits=(("f",),))
    builder.add(("g",), 1, COMPUTE, "forward", "g", (), waits=(("s",),))
    prices = [priced(gemm=5.0), priced(pipeline=0.25), priced(gemm=2.0)]
    timeline = played(builder, prices)
    assert last_role(timeline) == 1
    assert breakdown(timeline, prices) == {"bubble": 5.0, "pipeline": 0.25, "gemm": 2.0}


def test_waiting_for_a_collective_to_start_has_a_cause_of_its_own() -> None:
    """Another stage holds the exchange up for 3 of the 4 seconds."""
    builder = ProgramBuilder(2)
    builder.add(("f",), 0, COMPUTE, "forward", "f", ())
    builder.add(("r",), 1, COLLECTIVE, "reduce", "r", (), waits=(("f",),), wait_cause="data_parallel")
    builder.add(("o",), 1, COMPUTE, "optimizer", "o", (), waits=(("r",),))
    prices = [priced(gemm=3.0), priced(pipeline=1.0), priced(optimizer=0.5)]
    assert breakdown(played(builder, prices), prices) == {
        "data_parallel": 3.0,
        "pipeline": 1.0,
        "optimizer": 0.5,
    }


def test_the_first_of_equally_late_stages_is_the_last_role() -> None:
    builder = ProgramBuilder(3)
    for role, name in enumerate("abc"):
        builder.add((name,), role, COMPUTE, "forward", name, ())
    prices = [priced(gemm=1.0), priced(gemm=2.0), priced(gemm=2.0)]
    assert last_role(played(builder, prices)) == 1


def test_records_lay_the_parts_of_a_task_end_to_end() -> None:
    builder = ProgramBuilder(2)
    builder.add(("a",), 0, COMPUTE, "forward", "a", ())
    builder.add(("b",), 1, COMPUTE, "forward", "b", (), waits=(("a",),))
    prices = [priced(gemm=2.0, attention=1.0), priced(gemm=4.0)]
    rows = records(played(builder, prices), prices, ranks_per_role=8)
    assert [(r.rank, r.role, r.task, r.cause, r.start_s, r.end_s, r.flops, r.bytes) for r in rows] == [
        (0, 0, "a", "gemm", 0.0, 2.0, 2.0, 20.0),
        (0, 0, "a", "attention", 2.0, 3.0, 1.0, 10.0),
        (8, 1, "b", "gemm", 3.0, 7.0, 4.0, 40.0),
    ]


def test_nothing_at_all_takes_no_time() -> None:
    timeline = played(ProgramBuilder(1), [])
    assert (timeline.makespan_s, records(timeline, [], 1)) == (0.0, ())


@pytest.mark.parametrize("gather_s", [0.5, 2.0, 7.0])
def test_hidden_and_charged_time_of_a_collective_sum_to_its_run(gather_s: float) -> None:
    builder = ProgramBuilder(1)
    builder.add(("g",), 0, COLLECTIVE, "gather", "gather", ())
    builder.add(("a",), 0, COMPUTE, "forward", "a", ())
    builder.add(("b",), 0, COMPUTE, "forward", "b", (), waits=(("g",),))
    prices = [priced(data_parallel=gather_s), priced(gemm=2.0), priced(gemm=1.0)]
    timeline = played(builder, prices)
    total = hidden(timeline, prices).get("data_parallel", 0.0) + breakdown(timeline, prices).get(
        "data_parallel", 0.0
    )
    assert total == pytest.approx(gather_s)


def test_a_stage_that_waits_for_another_ones_gradients_is_idle() -> None:
    """One optimizer step for all stages: the last one's wait for the first one's backward is bubble."""
    from fakes.scenarios import small

    from sim.step import simulate

    result = simulate(small("parallelism.pp=4", "training.global_batch=8"))
    exchanged = sum(r.end_s - r.start_s for r in result.records if r.cause == "data_parallel" and r.role == 0)
    assert result.breakdown_s.get("data_parallel", 0.0) <= exchanged + 1e-9
    assert sum(result.breakdown_s.values()) == pytest.approx(result.step_time_s, rel=1e-12)
