"""Each machine predicted from the others: what was fitted on its rows is fitted again without them, and what
was read off them comes from the others.

* Attention: share and ramp of the kernel, fitted on the other GPUs.
* All-reduce inside a node: bandwidths and latencies of the protocols, fitted on the other nodes; floor,
  half-bandwidth size and plateau stay, as figures of the node (``known_by_links`` takes them away too).
* HBM streams: the share of peak that the other GPUs reach.
* Clocks and GEMM rates of one silicon at two power caps: the other part's rate through the power-cap law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from hwmodels import catalog
from hwmodels.gpu import Gpu
from hwmodels.node import Node
from hwmodels.power import achievable_flops, sustained_clock_Hz
from sim.ledger.micro import ScoredRow, score
from sim.ledger.micro_machines import Machines, plain_stack
from sim.ledger.micro_refit import attention_constants, protocols
from sim.ledger.micro_row import Attention, Clock, Collective, Gemm, MicroRow, Stream, Subject

# The same silicon under different power caps.
SAME_SILICON = {"mi300x": "mi325x", "mi325x": "mi300x"}


def leave_one_out(rows: Sequence[MicroRow]) -> tuple[ScoredRow, ...]:
    """Every measured row of a machine that others can stand in for, predicted from those others."""
    scored: list[ScoredRow] = []
    scored += _attention(_measured(rows, Attention))
    scored += _all_reduce(_measured(rows, Collective))
    scored += _streams(_measured(rows, Stream))
    scored += _clocks(_measured(rows, Clock))
    scored += _gemms(_measured(rows, Gemm))
    return tuple(scored)


def _measured(rows: Iterable[MicroRow], kind: type[Subject]) -> list[MicroRow]:
    return [row for row in rows if row.scored and isinstance(row.subject, kind)]


def _gpu_of(row: MicroRow) -> str:
    return str(getattr(row.subject, "gpu", ""))


def _groups(rows: Iterable[MicroRow]) -> dict[str, list[MicroRow]]:
    groups: dict[str, list[MicroRow]] = {}
    for row in rows:
        groups.setdefault(_gpu_of(row), []).append(row)
    return groups


def _attention(rows: Sequence[MicroRow]) -> list[ScoredRow]:
    groups = _groups(rows)
    scored: list[ScoredRow] = []
    for gpu, members in groups.items():
        constants = attention_constants([row for other in groups if other != gpu for row in groups[other]])
        known = [row for row in members if str(getattr(row.subject, "direction", "")) in constants.share]
        scored += score(known, constants.machines([gpu]))
    return scored


def _all_reduce(rows: Sequence[MicroRow]) -> list[ScoredRow]:
    curves = whole_node_curves(rows)
    scored: list[ScoredRow] = []
    for name, members in curves.items():
        others = [row for other in curves if other != name for row in curves[other]]
        if others:
            scored += score(members, Machines(protocols={name: protocols(others)}))
    return scored


def known_by_links(rows: Sequence[MicroRow]) -> tuple[ScoredRow, ...]:
    """All-reduce inside nodes of which nothing but the data-sheet link rate is known."""
    curves = whole_node_curves(_measured(rows, Collective))
    scored: list[ScoredRow] = []
    for name, members in curves.items():
        node = catalog.node(name)
        others = [catalog.node(other) for other in curves if other != name]
        others = [other for other in others if other.scale_up.kind == node.scale_up.kind]
        if others:
            shared = protocols([row for other in curves if other != name for row in curves[other]])
            bare = {name: _from_others(node, others)}
            scored += score(members, Machines(nodes=bare, protocols={name: shared}))
    return tuple(scored)


def whole_node_curves(rows: Sequence[MicroRow]) -> dict[str, list[MicroRow]]:
    """By node: all-reduce over all of its GPUs. In-switch reduction has figures of its own."""
    curves: dict[str, list[MicroRow]] = {}
    for row in rows:
        what = row.subject
        if not isinstance(what, Collective) or what.kernel != "all-reduce, one node":
            continue
        if what.ranks == catalog.node(what.node).gpus and what.algorithm != "in-switch":
            curves.setdefault(what.node, []).append(row)
    return curves


def _from_others(node: Node, others: Sequence[Node]) -> Node:
    """``node`` with its link rate only: plateau, ramp and floor come from ``others``."""
    usable = _link_Bps(node) * fmean(
        other.scale_up.usable_bandwidth_Bps / _link_Bps(other) for other in others
    )
    to_half_s = _geometric_mean(
        [
            other.scale_up.half_bandwidth_bytes / _plateau_Bps(other, other.scale_up.usable_bandwidth_Bps)
            for other in others
        ]
    )
    scale_up = replace(
        node.scale_up,
        usable_bandwidth_Bps=usable,
        half_bandwidth_bytes=to_half_s * _plateau_Bps(node, usable),
        latency_s=_geometric_mean([other.scale_up.latency_s for other in others]),
    )
    return replace(node, scale_up=scale_up)


def _link_Bps(node: Node) -> float:
    """What ``usable_bandwidth_Bps`` is a share of: one link of a mesh, all links of a GPU at a switch."""
    links = 1 if node.scale_up.kind == "mesh" else node.scale_up.links_per_gpu
    return node.scale_up.link_bandwidth_Bps * links


def _plateau_Bps(node: Node, usable_Bps: float) -> float:
    return usable_Bps * (node.gpus - 1 if node.scale_up.kind == "mesh" else 1)


def _streams(rows: Sequence[MicroRow]) -> list[ScoredRow]:
    groups = _groups(
        row for row in rows if isinstance(row.subject, Stream) and row.subject.bytes_moved is None
    )
    scored: list[ScoredRow] = []
    for gpu, members in groups.items():
        shares = [plain_stack(other).stream_efficiency for other in groups if other != gpu]
        if shares:
            stack = replace(plain_stack(gpu), stream_efficiency=fmean(shares))
            scored += score(members, Machines(stacks={gpu: stack}))
    return scored


def _clocks(rows: Sequence[MicroRow]) -> list[ScoredRow]:
    return _from_same_silicon(rows)


def _gemms(rows: Sequence[MicroRow]) -> list[ScoredRow]:
    return _from_same_silicon(rows)


def _from_same_silicon(rows: Sequence[MicroRow]) -> list[ScoredRow]:
    scored: list[ScoredRow] = []
    for gpu, members in _groups(rows).items():
        if gpu in SAME_SILICON:
            scored += score(members, Machines(gpus={gpu: _twin(gpu, SAME_SILICON[gpu])}))
    return scored


def _twin(name: str, other: str) -> Gpu:
    """GPU ``name`` with rates and clocks of ``other``, carried to its own power cap."""
    gpu, donor = catalog.gpu(name), catalog.gpu(other)
    formats = [dtype for dtype in gpu.achievable_flops if dtype in donor.achievable_flops]
    return replace(
        gpu,
        achievable_flops={dtype: achievable_flops(donor, dtype, gpu.power_cap_W) for dtype in formats},
        sustained_clock_Hz={dtype: sustained_clock_Hz(donor, dtype, gpu.power_cap_W) for dtype in formats},
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, values)))
