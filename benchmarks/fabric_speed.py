"""Seconds and memory of fabrics, routes and fair rates: ``python benchmarks/fabric_speed.py``.

Prints the median and the best of several runs. Nothing is asserted: shared machines are noisy.
"""

from __future__ import annotations

import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hwmodels import catalog
from hwmodels.fabric import Fabric, build_fabric
from hwmodels.fabric_spec import FabricSpec
from hwmodels.routing import Flows, Routing, route

RUNS = 9
NODE = catalog.node("mi300x-8x400g")
THREE_TIERS = FabricSpec("clos", tiers=3, radix=64, oversubscription=(1, 1, 7))
ROUTINGS = {
    "ECMP": Routing(),
    "ECMP, 4 queue pairs": Routing(queue_pairs=4),
    "packet spraying": Routing("spray"),
    "adaptive": Routing("adaptive"),
}


def timed(work: Callable[[], object]) -> str:
    """Median and best milliseconds of ``work``."""
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return f"{statistics.median(seconds) * 1e3:9.1f} ms (best {min(seconds) * 1e3:.1f})"


def peak_MiB(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def build_sizes() -> None:
    for kind in ("clos", "rail-clos"):
        for nodes in (1024, 2048, 16384):

            def build(kind: str = kind, nodes: int = nodes) -> Fabric:
                return build_fabric(NODE, nodes, FabricSpec(kind, tiers=3))

            size = f"{kind}, 3 tiers, {nodes * 8} GPUs, {build().links} links"
            print(f"build {size:50s}{timed(build)}  peak {peak_MiB(build):5.0f} MiB")


def patterns(gpus: int) -> dict[str, Flows]:
    """16,384 flows: between random pairs, and two random permutations of all GPUs."""
    rng = np.random.default_rng(0)
    everyone = np.arange(gpus)
    rounds = 16384 // gpus
    return {
        "random pairs": Flows.of(rng.integers(0, gpus, 16384), rng.integers(0, gpus, 16384), 1e6),
        "permutations": Flows.of(
            np.tile(everyone, rounds), np.concatenate([rng.permutation(gpus) for _ in range(rounds)]), 1e6
        ),
    }


def solve() -> None:
    fabric = build_fabric(NODE, 1024, THREE_TIERS)
    for pattern, flows in patterns(fabric.gpus).items():
        for name, routing in ROUTINGS.items():
            routes = route(fabric, flows, routing)
            print(f"16,384 flows, {pattern}, {name}: {len(routes.resource)} entries")
            print(f"    route            {timed(lambda flows=flows, r=routing: route(fabric, flows, r))}")
            print(f"    fair rates       {timed(routes.rates_Bps)}")
            print(f"    loads            {timed(lambda r=routes, f=flows: r.loads(f.size_bytes))}")


def ring() -> None:
    """All neighbours of 8 rail rings over 16,384 GPUs: the flows of one large all-reduce."""
    fabric = build_fabric(NODE, 2048, FabricSpec("rail-clos", tiers=3, radix=64))
    gpu = np.arange(fabric.gpus)
    flows = Flows.of(gpu, np.roll(gpu, -8), 1e6)
    for name, routing in ROUTINGS.items():
        print(f"ring of 16,384 GPUs, route and fair rates, {name}:")
        print(f"    both             {timed(lambda r=routing: route(fabric, flows, r).rates_Bps())}")


def main() -> None:
    build_sizes()
    solve()
    ring()


if __name__ == "__main__":
    main()
