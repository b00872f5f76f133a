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
    if not _may_meet(program):
        return ()
    return tuple(_flow(task, price, cluster) for task, price in zip(program.tasks, prices, strict=True))


def _may_meet(program: Program) -> bool:
    crossing = {(task.role, task.stream) for task in program.tasks if _crossing(task) is not None}
    roles = {role for role, _ in crossing}
    return any({(role, COLLECTIVE), (role, SEND)} <= crossing for role in roles)


def _crossing(task: Task) -> Collective | None:
    """The task's one collective, when it leaves the scale-up domain."""
    if task.stream not in (COLLECTIVE, SEND) or len(task.work) != 1:
        return None
    op = task.work[0].op
    if not isinstance(op, Collective) or op.group.size <= op.group.per_domain:
        return None
    return op


def _flow(task: Task, price: Price, cluster: Cluster) -> Flow | None:
    op = _crossing(task)
    if op is None or price.seconds <= 0.0:
        return None
    model, group = cluster.collectives, op.group
    step = group.stride * group.per_domain
    lone_Bps = cluster.node.nic_bandwidth_per_gpu_Bps
    if op.kind == "send":
        moved, rate = op.bytes, model.nic_Bps(group.stride) * cluster.stack.p2p_efficiency
    else:  # a ring's members in a domain each drive their own NIC
        moved = op.wire_bytes / group.per_domain
        rate = model.bus_Bps(group.size, group.per_domain, group.stride) / group.per_domain
    transfer_s = min(price.seconds, moved / rate)
    nic_s = min(transfer_s, moved / lone_Bps)
    forward = task.name.startswith("send forward")
    target = task.role + (1 if forward else -1) if op.kind == "send" else task.role
    demand = [(f"nic out of {task.role}", nic_s), (f"nic into {target}", nic_s)]
    if cluster.network is not None:
        for tier, use in cluster.network.use(step).items():
            demand.append((f"{tier} of {task.role}", min(transfer_s, nic_s * use)))
    return Flow(price.seconds - transfer_s, transfer_s, tuple(demand))
