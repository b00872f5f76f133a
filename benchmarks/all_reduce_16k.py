"""Seconds for one prediction: a 1 GiB all-reduce over 16,384 GPUs on a 3-tier Clos, graph and routes included.

``python benchmarks/all_reduce_16k.py`` prints wall seconds of the first call (builds the graph) and of the
next sizes (everything known), and their share of the 0.2 s budget.
"""

from __future__ import annotations

import time

from hwmodels import catalog
from hwmodels.collectives import CollectiveModel
from hwmodels.fabric_spec import FabricSpec
from hwmodels.network import Network, RoutingSpec

GIB = 2.0**30
BUDGET_S = 0.2


def main() -> None:
    node, stack = catalog.node("mi300x-8x400g"), catalog.stack("primus-2026-mi300x")
    spec = FabricSpec(kind="clos", tiers=3, oversubscription=(1.0, 1.0, 7.0))
    print(
        f"{'routing':10s} {'first call s':>13s} {'of budget':>10s} {'next size s':>12s} {'busbw GB/s':>11s}"
    )
    for mode in ("spray", "ecmp", "adaptive"):
        model = CollectiveModel(node, stack, Network(node, 2048, 16384, spec, RoutingSpec(mode)))
        begin = time.perf_counter()
        seconds = model.seconds("all_reduce", GIB, 16384, 8, stride=1)
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        model.seconds("all_reduce", 2 * GIB, 16384, 8, stride=1)
        again = time.perf_counter() - begin
        bus = 2 * 16383 / 16384 * GIB / seconds / 1e9
        print(f"{mode:10s} {first:13.3f} {first / BUDGET_S:10.0%} {again:12.6f} {bus:11.1f}")


if __name__ == "__main__":
    main()
