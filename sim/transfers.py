"""Which tasks share links, and how much of each link they need: flows for an engine with contention.

Only traffic between scale-up domains is shared here: gradient exchanges, parameter gathers and pipeline
sends of one rank meet on its NICs and, on a network that can block, on its share of the tiers above.
Inside a domain they use links of their own (a mesh) or are priced together.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwmodels.cluster import Cluster
from sim.ops import Collective
from sim.pricing import Price
from sim.program import COLLECTIVE, SEND, Flow, Program, Task


def flows(program: Program, prices: Sequence[Price], cluster: Cluster) -> tuple[Flow | None, ...]:
    """A flow for each task that may meet another one on a link; none where nothing can meet.

    A role whose collectives or sends never leave its domain has nothing to share.
    """
    crossing = [_crossing(task) for task in program.tasks]
    used = {(task.role, task.stream) for task, ops in zip(program.tasks, crossing, strict=True) if ops}
    if not any({(role, COLLECTIVE), (role, SEND)} <= used for role, _ in used):
        return ()
    return tuple(
        _flow(task, ops, price, cluster)
        for task, ops, price in zip(program.tasks, crossing, prices, strict=True)
    )


def _crossing(task: Task) -> tuple[Collective, ...]:
    """Those of the task's collectives that leave the scale-up domain."""
    if task.stream not in (COLLECTIVE, SEND):
        return ()
    ops = (work.op for work in task.work)
    return tuple(op for op in ops if isinstance(op, Collective) and op.group.size > op.group.per_domain)


def _flow(task: Task, ops: tuple[Collective, ...], price: Price, cluster: Cluster) -> Flow | None:
    if not ops or price.seconds <= 0.0:
        return None
    demand: dict[str, float] = {}
    transfer_s = 0.0
    for op in ops:
        left_s = price.seconds - transfer_s
        own_s, needs = _demand(op, task, left_s, cluster)
        transfer_s += own_s
        for link, seconds in needs:
            demand[link] = demand.get(link, 0.0) + seconds
    return Flow(price.seconds - transfer_s, transfer_s, tuple(demand.items()))


def _demand(
    op: Collective, task: Task, most_s: float, cluster: Cluster
) -> tuple[float, list[tuple[str, float]]]:
    """Seconds on the wire, ``most_s`` at most, and what of them each link needs."""
    model, group = cluster.collectives, op.group
    step = group.stride * group.per_domain
    lone_Bps = cluster.node.nic_bandwidth_per_gpu_Bps
    if op.kind == "send":
        moved, rate = op.bytes, model.nic_Bps(group.stride) * cluster.stack.p2p_efficiency
    else:  # a ring's members in a domain each drive their own NIC
        moved = op.wire_bytes / group.per_domain
        rate = model.bus_Bps(group.size, group.per_domain, group.stride) / group.per_domain
    transfer_s = min(most_s, moved / rate)
    nic_s = min(transfer_s, moved / lone_Bps)
    target = task.role if task.peer is None else task.peer
    demand = [(f"nic out of {task.role}", nic_s), (f"nic into {target}", nic_s)]
    if cluster.network is not None:
        for tier, use in cluster.network.use(step).items():
            demand.append((f"{tier} of {task.role}", min(transfer_s, nic_s * use)))
    return transfer_s, demand
