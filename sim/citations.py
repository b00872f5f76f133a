"""The catalog figures a prediction rests on, with their sources, and those of them that are assumed."""

from __future__ import annotations

from collections.abc import Iterator

from hwmodels.cluster import Cluster
from hwmodels.figure import Figure
from sim.families import Family
from sim.program import FROM_HOST, TO_HOST
from sim.results import Source

ASSUMED = "assumed"


def cited_sources(cluster: Cluster, family: Family) -> tuple[Source, ...]:
    """One entry per figure used, in the order machine, links, software, model."""
    cited = [_source(entry, name, figure) for entry, name, figure in _used(cluster, family)]
    model = family.model
    cited.append(Source(f"model {model.name}", "configuration", *_split(model.source), "high"))
    return tuple(cited)


def assumed_figures(cluster: Cluster, family: Family) -> tuple[str, ...]:
    """The used figures that nobody measured, and what the network's layout rests on, in words."""
    figures = tuple(
        f"{entry}: {name} = {figure.text}" + (f" ({figure.note})" if figure.note else "")
        for entry, name, figure in _used(cluster, family)
        if figure.confidence == ASSUMED
    )
    network = cluster.network
    return figures if network is None else (*figures, *(f"fabric: {text}" for text in network.assumptions))


def _used(cluster: Cluster, family: Family) -> Iterator[tuple[str, str, Figure]]:
    node, gpu, nic, stack = cluster.node, cluster.gpu, cluster.node.nic, cluster.stack
    groups = [(f"gpu {gpu.name}", gpu.figures, _gpu_figures(family))]
    if cluster.gpus > 1:
        groups.append((f"node {node.name}", node.figures, ("scale_up.usable_bandwidth", "scale_up.latency")))
    if cluster.gpus > cluster.domain_gpus:
        groups.append((f"nic {nic.name}", nic.figures, ("usable_bandwidth", "latency")))
    groups.append((f"stack {stack.name}", stack.figures, _stack_figures(cluster, family)))
    for entry, figures, names in groups:
        for name in names:
            if name in figures:
                yield entry, name, figures[name]


def _gpu_figures(family: Family) -> tuple[str, ...]:
    rates = [f"{kind}.{f}" for f in family.formats for kind in ("achievable_flops", "peak_flops")]
    copies = any({TO_HOST, FROM_HOST} & set(streams) for streams in family.program.order)
    names = ("power_cap", "compute_units", "hbm", "hbm_bandwidth")
    return (*rates, *names, *(("host_link",) if copies else ()))


def _stack_figures(cluster: Cluster, family: Family) -> tuple[str, ...]:
    names = [f"gemm_efficiency.{f}" for f in family.formats]
    names += ["stream_efficiency", *family.stack_figures]
    if cluster.gpus > 1:
        names += ["overlap_slowdown", "scale_up_efficiency"]
    if cluster.gpus > cluster.domain_gpus:
        names += ["scale_out_efficiency", "p2p_efficiency"]
    return (*names, "host_launch", "fixed_step")


def _source(entry: str, name: str, figure: Figure) -> Source:
    return Source(entry, name, *_split(figure.source), figure.confidence)


def _split(citation: str) -> tuple[str, str]:
    """``title, https://… (date)`` as title and address."""
    title, found, address = citation.partition(", http")
    return title, f"http{address.split(' ')[0]}" if found else ""
