"""A node file as a ``Node`` with its GPU, links and NICs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmodels.node import Node, ScaleUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmodels.catalog.record import Record
    from hwmodels.gpu import Gpu
    from hwmodels.node import Nic

SCALE_UP_KINDS = ("mesh", "switch", "uneven-mesh", "bus")


def build_node(record: Record, gpu: Callable[[str], Gpu], nic: Callable[[str], Nic]) -> Node:
    """Raises ``CatalogError`` for missing or unknown keys and for links faster than they can be."""
    node = Node(
        name=record.text("name"),
        title=record.text("title"),
        gpu=gpu(record.text("gpu")),
        gpus=record.count("gpus"),
        scale_up=_scale_up(record.section("scale_up")),
        nic=nic(record.choice("nic")),
        nics=record.count("nics"),
        figures=record.figures,
    )
    record.facts()
    record.done()
    if node.scale_up.domain_gpus % node.gpus:
        raise record.error("scale_up.domain_gpus", f"no whole number of nodes of {node.gpus} GPUs")
    return node


def _scale_up(record: Record) -> ScaleUp:
    kind = record.text("kind")
    if kind not in SCALE_UP_KINDS:
        raise record.error("kind", f"{kind!r} is none of {', '.join(SCALE_UP_KINDS)}")
    scale_up = ScaleUp(
        kind=kind,
        domain_gpus=record.count("domain_gpus"),
        links_per_gpu=record.count("links_per_gpu"),
        link_bandwidth_Bps=record.quantity("link_bandwidth", "bandwidth"),
        usable_bandwidth_Bps=record.quantity("usable_bandwidth", "bandwidth"),
        latency_s=record.quantity("latency", "time"),
        half_bandwidth_bytes=record.quantity("half_bandwidth_size", "bytes"),
        bus_bandwidth_Bps=_bus_bandwidth(record),
        in_switch_bandwidth_Bps=(
            record.quantity("in_switch_bandwidth", "bandwidth") if "in_switch_bandwidth" in record else 0.0
        ),
        pair_links=_pair_links(record),
        exchange_bandwidth_Bps=(
            record.quantity("exchange_bandwidth", "bandwidth") if "exchange_bandwidth" in record else 0.0
        ),
    )
    record.done()
    links = 1 if kind == "mesh" else scale_up.links_per_gpu
    if not 0 < scale_up.usable_bandwidth_Bps <= links * scale_up.link_bandwidth_Bps:
        raise record.error("usable_bandwidth", "not above 0 and at most what the links carry")
    return scale_up


def _bus_bandwidth(record: Record) -> dict[int, float]:
    if "bus_bandwidth" not in record:
        return {}
    return {int(group): value for group, value in record.quantities("bus_bandwidth", "bandwidth").items()}


def _pair_links(record: Record) -> dict[tuple[int, int], int]:
    """Links of each connected pair of GPUs, written ``0-1: {value: "4", ...}``."""
    if "pair_links" not in record:
        return {}
    section = record.section("pair_links")
    links: dict[tuple[int, int], int] = {}
    for pair in section:
        first, dash, second = str(pair).partition("-")
        if not (dash and first.isdecimal() and second.isdecimal() and int(first) < int(second)):
            raise section.error(str(pair), "a pair of GPUs is written like 0-1, the lower one first")
        links[int(first), int(second)] = section.count(pair)
    return links
