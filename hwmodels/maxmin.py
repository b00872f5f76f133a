"""Max-min fair rates of flows on shared links, in plain numpy.

Every flow rises at its weight until a link on its way is full. Instead of freezing the one tightest link of
all per round, each round freezes *every* link that is tightest for all of the flows on it: such a link can
no longer be changed by the others, because what they freeze only ever raises its neighbours' shares. A few
rounds then suffice where one global minimum per round would take thousands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwmodels.topologies.links import Floats, Ints

# Shares this close count as equal: symmetric flows then freeze together, and no rate is off by more.
TOLERANCE = 1e-9


def fair_rates(
    start: Ints,
    resource: Ints,
    share: Floats,
    capacity_Bps: Floats,
    weight: Floats | None = None,
    cap_Bps: Floats | None = None,
) -> Floats:
    """Max-min fair rate of each flow, bytes/s (shape: flows).

    ``start`` (flows + 1), ``resource``, ``share``: which resources each flow uses, in compressed rows;
    entry e takes ``share[e]`` of the flow's rate on ``resource[e]`` (1 for a whole path, 1/k for one of k
    queue pairs). A resource appears at most once per flow. ``capacity_Bps``: per resource, ``inf`` never
    binds. ``weight``: flows on one bottleneck get rates in proportion (default 1). ``cap_Bps``: most that a
    flow takes (default no limit). A flow that nothing limits gets its cap, which is ``inf`` without one.

    Raises ValueError for weights that are not above 0, and for capacities or caps below 0.
    """
    flows = len(start) - 1
    weights = np.ones(flows) if weight is None else np.asarray(weight, dtype=np.float64)
    caps = np.full(flows, np.inf) if cap_Bps is None else np.asarray(cap_Bps, dtype=np.float64)
    if not (weights > 0.0).all() or not np.isfinite(weights).all():
        raise ValueError("weights must be finite and above 0")
    if not (caps >= 0.0).all():
        raise ValueError("rate caps must not be negative")
    if not (capacity_Bps >= 0.0).all():
        raise ValueError("capacities must not be negative")
    columns, load, left = _columns(start, resource, share * np.repeat(weights, np.diff(start)), capacity_Bps)
    rate = np.empty(flows)
    alive, limit = np.arange(flows), caps / weights
    while len(alive):
        level, done = _round(columns, load, left, limit)
        rate[alive[done]] = weights[alive[done]] * level[done]
        out, kept = np.flatnonzero(done), np.flatnonzero(~done)
        taken = load.take(out, axis=1) * level[out]
        used = np.bincount(columns.take(out, axis=1).ravel(), taken.ravel(), minlength=len(left))
        left[:-1] = np.maximum(left[:-1] - used[:-1], 0.0)
        alive, limit = alive[kept], limit[kept]
        columns, load = columns.take(kept, axis=1), load.take(kept, axis=1)
    return rate


def _columns(start: Ints, resource: Ints, load: Floats, capacity_Bps: Floats) -> tuple[Ints, Floats, Floats]:
    """Rows as the columns of a matrix (shape: longest row, flows): every step is then one long vector.

    Returns the resource of each entry, numbered from 0 without the idle ones, its use per unit of the
    flow's level, and what each resource has left. The last resource is padding and never binds.
    """
    counts = np.diff(start)
    flows, longest = len(counts), int(counts.max(initial=0)) or 1
    in_use = np.zeros(len(capacity_Bps), dtype=bool)
    in_use[resource] = True
    in_use &= np.isfinite(capacity_Bps)
    left = np.append(capacity_Bps[in_use], np.inf)
    number = np.where(in_use, np.cumsum(in_use) - 1, len(left) - 1)
    columns = np.full(longest * flows, len(left) - 1)
    loads = np.ones(longest * flows)
    # Entry number p of flow f goes to p x flows + f.
    place = np.arange(len(resource)) * flows + np.repeat(np.arange(flows) - start[:-1] * flows, counts)
    columns[place] = np.where(load > 0.0, number[resource], len(left) - 1)
    loads[place] = load
    return columns.reshape(longest, flows), loads.reshape(longest, flows), left


def _round(columns: Ints, load: Floats, left: Floats, limit: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The level (rate over weight) at which each flow would stop now, and for which flows it is final."""
    flat = columns.ravel()
    total = np.bincount(flat, load.ravel(), minlength=len(left))
    fair = np.divide(left, total, out=np.full(len(left), np.inf), where=total > 0.0)
    offered = fair[columns]
    level = np.minimum(offered.min(axis=0), limit)
    # A resource stays open while one of its flows stops elsewhere first.
    slack = np.flatnonzero(level < offered * (1.0 - TOLERANCE))
    still_open = np.zeros(len(left), dtype=bool)
    still_open[flat.take(slack)] = True
    still_open[-1] = True
    done = ~still_open[columns].all(axis=0) | (level >= limit)
    return level, done
