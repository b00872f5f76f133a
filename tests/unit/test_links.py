"""Transfers that meet on a link: closed forms of two and three of them, from the engine itself."""

from __future__ import annotations

import pytest

from hwmodels.sharing import fair_progress
from sim.engine.events import run
from sim.parallel.builder import ProgramBuilder
from sim.program import COLLECTIVE, COMPUTE, SEND, Flow


def _ends(*flows: tuple[float, Flow]) -> list[float]:
    """End of each flow when it may begin at its own time: one role per flow, held back by a compute task."""
    builder = ProgramBuilder(len(flows))
    durations: list[float] = []
    given: list[Flow | None] = []
    for role, (begin_s, flow) in enumerate(flows):
        builder.add(("wait", role), role, COMPUTE, "forward", "wait", ())
        builder.add(("flow", role), role, SEND, "send", "flow", (), waits=(("wait", role),))
        durations += [begin_s, flow.latency_s + flow.transfer_s]
        given += [None, flow]
    timeline = run(builder.build(), durations, given, fair_progress)
    return [timeline.end_s[2 * role + 1] for role in range(len(flows))]


def _flow(seconds: float, link: str = "nic", latency_s: float = 0.0, use: float = 1.0) -> Flow:
    return Flow(latency_s, seconds, ((link, seconds * use),))


def test_a_lone_flow_takes_its_own_time() -> None:
    assert _ends((1.0, _flow(10.0, latency_s=2.0))) == [13.0]


def test_two_equal_flows_share_a_link_evenly() -> None:
    assert _ends((0.0, _flow(10.0)), (0.0, _flow(10.0))) == [20.0, 20.0]


def test_a_later_flow_slows_the_first_only_while_both_live() -> None:
    # A alone for 5 s, then both at half speed until A's other 5 s are through, then B alone.
    assert _ends((0.0, _flow(10.0)), (5.0, _flow(10.0))) == pytest.approx([15.0, 20.0])


def test_latency_takes_no_share() -> None:
    assert _ends((0.0, _flow(10.0)), (0.0, _flow(1.0, latency_s=10.0))) == [10.0, 11.0]


def test_flows_on_links_of_their_own_do_not_meet() -> None:
    assert _ends((0.0, _flow(10.0, "a")), (0.0, _flow(4.0, "b"))) == [10.0, 4.0]


def test_flows_that_need_half_a_link_each_do_not_slow_each_other() -> None:
    assert _ends((0.0, _flow(10.0, use=0.5)), (0.0, _flow(10.0, use=0.5))) == [10.0, 10.0]


def test_three_flows_two_links() -> None:
    # B crosses both links. Link a: A and B get a half. Link b: C takes what B leaves: a half.
    long = 1000.0
    both = Flow(0.0, long, (("a", long), ("b", long)))
    ends = _ends((0.0, _flow(10.0, "a")), (0.0, both), (0.0, _flow(10.0, "b")))
    assert ends[0] == pytest.approx(20.0)
    assert ends[2] == pytest.approx(20.0)
    assert ends[1] == pytest.approx(20.0 + long - 10.0)


def test_a_chain_of_meetings_is_settled_together() -> None:
    """C ends on link b, which frees B there, which takes more of link a from A."""
    both = Flow(0.0, 100.0, (("a", 100.0), ("b", 100.0)))
    # Links: a carries A and B, b carries B, C and D: B gets a third of b, A two thirds of a.
    ends = _ends((0.0, _flow(100.0, "a")), (0.0, both), (0.0, _flow(10.0, "b")), (0.0, _flow(10.0, "b")))
    assert ends[2] == pytest.approx(30.0)
    assert ends[3] == pytest.approx(30.0)
    # Then B and A share a evenly: A has 100 - 20 left, B 100 - 10.
    assert ends[0] == pytest.approx(30.0 + 160.0)
    assert ends[1] == pytest.approx(190.0 + 90.0 - 80.0)


def test_flows_without_a_solver_are_refused() -> None:
    builder = ProgramBuilder(1)
    builder.add(("x",), 0, COLLECTIVE, "reduce", "x", ())
    with pytest.raises(ValueError, match="solver"):
        run(builder.build(), [1.0], [_flow(1.0)])


def test_links_do_not_change_tasks_that_share_nothing() -> None:
    builder = ProgramBuilder(1)
    builder.add(("a",), 0, COMPUTE, "forward", "a", ())
    builder.add(("b",), 0, COLLECTIVE, "reduce", "b", (), waits=(("a",),))
    plain = run(builder.build(), [1.0, 2.0])
    shared = run(builder.build(), [1.0, 2.0], [None, _flow(2.0)], fair_progress)
    assert plain.end_s == shared.end_s == (1.0, 3.0)
