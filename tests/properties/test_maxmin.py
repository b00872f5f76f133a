"""Max-min fair rates: feasible, optimal by the bottleneck rule, and equal to slow water-filling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.maxmin import fair_rates

Network = tuple[list[float], list[dict[int, float]], list[float], list[float]]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Capacities of a few links; flows as {link: share}; weights; caps (often none)."""
    links = draw(st.integers(1, 6))
    capacities = draw(
        st.lists(
            st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.5, 10.0, float("inf")]), min_size=links, max_size=links
        )
    )
    shares = st.sampled_from([1.0, 1.0, 0.5, 0.25])
    paths = st.dictionaries(st.integers(0, links - 1), shares, max_size=4)
    flows = draw(st.lists(paths, min_size=1, max_size=12))
    size = len(flows)
    weights = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.3]), min_size=size, max_size=size))
    unlimited = float("inf")
    caps = draw(
        st.lists(st.sampled_from([unlimited, unlimited, 0.0, 0.4, 1.5]), min_size=size, max_size=size)
    )
    return capacities, flows, weights, caps


def solve(network: Network) -> np.ndarray:
    capacities, flows, weights, caps = network
    start = np.concatenate([[0], np.cumsum([len(flow) for flow in flows])])
    resource = np.array([link for flow in flows for link in flow], dtype=np.int64)
    share = np.array([share for flow in flows for share in flow.values()])
    return fair_rates(start, resource, share, np.array(capacities), np.array(weights), np.array(caps))


def water_filling(network: Network) -> list[float]:
    """Raises all unfrozen flows together until the next link is full or the next cap is met; one at a time."""
    capacities, flows, weights, caps = network
    rate: list[float | None] = [None] * len(flows)
    while any(r is None for r in rate):
        stops: list[tuple[float, list[int]]] = []
        for link, capacity in enumerate(capacities):
            if capacity == float("inf"):
                continue
            rising = [f for f, flow in enumerate(flows) if rate[f] is None and link in flow]
            used = sum((rate[f] or 0.0) * flow[link] for f, flow in enumerate(flows) if link in flow)
            if rising:
                demand = sum(weights[f] * flows[f][link] for f in rising)
                stops.append((max(capacity - used, 0.0) / demand, rising))
        stops += [(caps[f] / weights[f], [f]) for f in range(len(flows)) if rate[f] is None]
        level, frozen = min(stops, key=lambda stop: stop[0])
        for f in frozen:
            rate[f] = weights[f] * level
    return [r for r in rate if r is not None]


def carried(network: Network, rates: np.ndarray, link: int) -> float:
    return sum(
        rate * flow.get(link, 0.0) for rate, flow in zip(rates, network[1], strict=True) if link in flow
    )


@given(networks())
def test_rates_equal_slow_water_filling(network: Network) -> None:
    assert solve(network) == pytest.approx(water_filling(network), rel=1e-7, abs=1e-12)


@given(networks())
def test_no_link_carries_more_than_it_can_and_no_flow_passes_its_cap(network: Network) -> None:
    rates = solve(network)
    for link, capacity in enumerate(network[0]):
        assert carried(network, rates, link) <= capacity * (1 + 1e-9)
    assert (rates <= np.array(network[3])).all()


@given(networks())
def test_no_rate_can_rise_without_lowering_a_smaller_or_equal_one(network: Network) -> None:
    """Every flow below its cap has a bottleneck: a full link on which no other flow gets more per weight."""
    capacities, flows, weights, caps = network
    rates = solve(network)
    levels = rates / np.array(weights)
    for f, flow in enumerate(flows):
        if rates[f] >= caps[f]:
            continue
        full = [
            link for link in flow if carried(network, rates, link) >= capacities[link] * (1 - 1e-7) - 1e-12
        ]
        fairest = [
            link
            for link in full
            if all(levels[g] <= levels[f] * (1 + 1e-7) + 1e-12 for g in range(len(flows)) if link in flows[g])
        ]
        assert fairest


@given(networks(), st.floats(0.1, 1000.0))
def test_rates_scale_with_capacity(network: Network, factor: float) -> None:
    capacities, flows, weights, caps = network
    scaled = ([c * factor for c in capacities], flows, weights, [c * factor for c in caps])
    assert solve(scaled) == pytest.approx(solve(network) * factor, rel=1e-6, abs=1e-9)


def test_a_chain_freezes_link_by_link() -> None:
    """Links of 1, 2, 4, … with a flow over each neighbouring pair: only the first is tightest at once."""
    capacities = [2.0**k for k in range(12)]
    flows: list[dict[int, float]] = [{0: 1.0}, *({k: 1.0, k + 1: 1.0} for k in range(11))]
    network = (capacities, flows, [1.0] * 12, [float("inf")] * 12)
    assert solve(network) == pytest.approx(water_filling(network))


def test_weights_and_caps_are_checked() -> None:
    start, resource, share = np.array([0, 1]), np.array([0]), np.ones(1)
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="weights must be finite and above 0"):
            fair_rates(start, resource, share, np.ones(1), weight=np.array([weight]))
    with pytest.raises(ValueError, match="rate caps must not be negative"):
        fair_rates(start, resource, share, np.ones(1), cap_Bps=np.array([-1.0]))
    for capacity in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="capacities must not be negative"):
            fair_rates(start, resource, share, np.array([capacity]))


def test_no_flows_have_no_rates() -> None:
    none = np.empty(0, np.int64)
    assert len(fair_rates(np.zeros(1, np.int64), none, np.empty(0), np.ones(3))) == 0
