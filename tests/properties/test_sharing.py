"""Fair progress of transfers: capacity, optimality, and agreement with the array solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.maxmin import fair_rates
from hwmodels.sharing import fair_progress
from sim.engine.events import run
from sim.parallel.builder import ProgramBuilder
from sim.program import COMPUTE, SEND, Flow

LINKS = ("a", "b", "c", "d")

usages = st.lists(
    st.dictionaries(st.sampled_from(LINKS), st.floats(0.05, 1.0), min_size=1, max_size=3),
    min_size=1,
    max_size=8,
)


@given(usages)
@settings(deadline=None, max_examples=200)
def test_no_link_is_above_its_capacity_and_none_idles_while_somebody_waits(
    uses: list[dict[str, float]],
) -> None:
    speed = fair_progress(uses)
    assert all(0.0 < s <= 1.0 for s in speed)
    load = {link: sum(s * u.get(link, 0.0) for s, u in zip(speed, uses, strict=True)) for link in LINKS}
    assert all(total <= 1.0 + 1e-9 for total in load.values())
    share = [s * max(u.values()) for s, u in zip(speed, uses, strict=True)]
    for i, use in enumerate(uses):
        if speed[i] < 1.0 - 1e-9:  # bottleneck: a full link on which nobody has a larger share
            assert any(
                load[link] > 1.0 - 1e-6
                and all(share[j] <= share[i] + 1e-6 for j, other in enumerate(uses) if link in other)
                for link in use
            )


@given(usages)
@settings(deadline=None, max_examples=100)
def test_the_array_solver_gives_the_same(uses: list[dict[str, float]]) -> None:
    start = np.cumsum([0] + [len(u) for u in uses])
    resource = np.array([LINKS.index(link) for u in uses for link in u])
    busiest = [max(u.values()) for u in uses]
    share = np.array([u[link] / b for u, b in zip(uses, busiest, strict=True) for link in u])
    rates = fair_rates(start, resource, share, np.ones(len(LINKS)), cap_Bps=np.array(busiest))
    assert fair_progress(uses) == pytest.approx(list(rates / np.array(busiest)), rel=1e-6)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 5.0), st.floats(0.1, 5.0), st.sampled_from(LINKS)), min_size=1, max_size=6
    )
)
@settings(deadline=None, max_examples=100)
def test_contention_only_delays_and_every_link_does_all_its_work(
    drawn: list[tuple[float, float, str]],
) -> None:
    """Ends lie between running alone and running after everybody else; a busy link never rests."""
    builder = ProgramBuilder(len(drawn))
    durations: list[float] = []
    flows: list[Flow | None] = []
    for role, (begin, seconds, link) in enumerate(drawn):
        builder.add(("w", role), role, COMPUTE, "forward", "w", ())
        builder.add(("f", role), role, SEND, "send", "f", (), waits=(("w", role),))
        durations += [begin, seconds]
        flows += [None, Flow(0.0, seconds, ((link, seconds),))]
    ends = run(builder.build(), durations, flows, fair_progress).end_s[1::2]
    for link in {link for *_, link in drawn}:
        here = sorted((begin, seconds) for begin, seconds, name in drawn if name == link)
        free = 0.0
        for begin, seconds in here:  # the same work on one link without pause: its last end is the same
            free = max(free, begin) + seconds
        last = max(end for end, (_, _, name) in zip(ends, drawn, strict=True) if name == link)
        assert last == pytest.approx(free, rel=1e-9)
    for end, (begin, seconds, _) in zip(ends, drawn, strict=True):
        assert end >= begin + seconds - 1e-9
