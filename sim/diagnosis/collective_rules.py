"""Why a collective is slow: one rule per known fault, each on the figures of the whole curve.

A rule looks at plateau, floor and shape, and at what the log says of its launch (transports, settings,
processes). It names the rows that it explains. Every rule is tried; what is certain comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hwmodels.units import format_quantity
from sim.diagnosis.cause import CERTAIN, LIKELY, POSSIBLE, Cause
from sim.diagnosis.curve import Curve, Point
from sim.diagnosis.signs import signs

RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
LINK_TOLERANCE = (
    0.08  # usable link bandwidths vary by 4 % between machines, plateaus by as much between sizes
)
NIC_TOLERANCE = 0.15
SMALL_IS_NORMAL = 0.6  # of the predicted speed: latency then does not share the fault
UNIFORM_SPREAD = 1.35  # one factor for all sizes, within the scatter of a good log
COLLAPSE = 3.0  # bandwidth that falls to a third as messages grow
FLOOR_RATIO = 1.5

Rule = Callable[[Curve], Iterator[Cause]]


def causes(curve: Curve) -> tuple[Cause, ...]:
    """Causes that fit, the surest first; of equals the earlier rule."""
    found = [cause for rule in RULES for cause in rule(curve)]
    order = (CERTAIN, LIKELY, POSSIBLE)
    found.sort(key=lambda cause: order.index(cause.confidence))
    return tuple(found)


def tcp_fallback(curve: Curve) -> Iterator[Cause]:
    if not curve.machine.crosses_domains or not curve.large_is_low:
        return
    plateau = curve.plateau_Bps or 0.0
    low, high = signs().tcp_bus_bandwidth_Bps
    sockets = any("Socket" in transport for transport in curve.launch.transports)
    if sockets or (curve.has_plateau and low <= plateau <= high):
        said = "the log says NET/Socket; " if sockets else ""
        yield Cause(
            "tcp-fallback",
            CERTAIN if sockets else LIKELY,
            f"{said}large messages reach {_rate(plateau)}: TCP sockets carry 1 to 3 GB/s, RDMA {_expected(curve)}",
            "see 'Using network' with NCCL_DEBUG=INFO; load the RDMA plugin or driver, check NCCL_IB_DISABLE and NCCL_IB_HCA",
            _lines(p for p in curve.steady if p.is_low),
        )


def collapse(curve: Curve) -> Iterator[Cause]:
    """Bandwidth that falls while messages grow: a protocol or plugin that chokes, not a slow wire."""
    best: Point | None = None
    for point in curve.steady:
        if best is not None and point.is_low and curve.bus_Bps(point) * COLLAPSE < curve.bus_Bps(best):
            yield Cause(
                "transport-pathology",
                LIKELY,
                f"bus bandwidth falls from {_rate(curve.bus_Bps(best))} at {_size(best)} to "
                f"{_rate(curve.bus_Bps(point))} at {_size(point)}: a wire does not slow down as messages grow",
                "suspect the network plugin's protocol switch or registration (rendezvous, memory hooks); compare with another plugin version",
                _lines(p for p in curve.points if p.is_low),
            )
            return
        if best is None or curve.bus_Bps(point) > curve.bus_Bps(best):
            best = point


def few_nics(curve: Curve) -> Iterator[Cause]:
    if not curve.machine.crosses_domains or curve.kind not in RINGS:
        return
    if not _only_large_is_low(curve) or not _low_plateau(curve):
        return
    node, plateau = curve.machine.node, curve.plateau_Bps or 0.0
    one = node.nic.usable_bandwidth_Bps * curve.machine.stack.scale_out_efficiency
    count = round(plateau / one)
    if 1 <= count <= node.nics // 2 and abs(plateau / (count * one) - 1) <= NIC_TOLERANCE:
        rails = "one NIC (rail)" if count == 1 else f"{count} of {node.nics} NICs"
        yield Cause(
            "few-nics",
            LIKELY,
            f"large messages reach {_rate(plateau)}, what {rails} of {_rate(one)} carry; {node.nics} give {_expected(curve)}",
            "check NCCL_IB_HCA, NIC-to-GPU affinity, PXN and GPUDirect RDMA; count the 'NET/IB' devices with NCCL_DEBUG=INFO",
            _lines(_low_not_small(curve)),
        )


def few_links(curve: Curve) -> Iterator[Cause]:
    """A mesh has one link per pair: a plateau of k links means that rings use k of them."""
    links = _mesh_links(curve)
    if links is None or not _only_large_is_low(curve) or not _low_plateau(curve):
        return
    one, all_links = links
    plateau = curve.plateau_Bps or 0.0
    count = round(plateau / one)
    if 1 <= count <= all_links - 2 and abs(plateau / (count * one) - 1) <= LINK_TOLERANCE:
        yield Cause(
            "few-links",
            LIKELY,
            f"large messages reach {_rate(plateau)}, as much as {count} of {all_links} links of {_rate(one)}",
            "a subset of the mesh: check which GPUs the job sees (HIP_VISIBLE_DEVICES, cgroups) and raise NCCL_MIN_NCHANNELS",
            _lines(_low_not_small(curve)),
        )


def pcie(curve: Curve) -> Iterator[Cause]:
    if curve.machine.crosses_domains or not curve.large_is_low:
        return
    plateau, (low, high) = curve.plateau_Bps or 0.0, signs().pcie_bus_bandwidth_Bps
    links = _mesh_links(curve)
    high = high if links is None else min(high, links[0] * (1 - LINK_TOLERANCE))
    host = any(transport.startswith(("SHM", "NET")) for transport in curve.launch.transports)
    if host or (curve.has_plateau and low <= plateau <= high):
        said = "the log says " + ", ".join(curve.launch.transports) + "; " if host else ""
        yield Cause(
            "pcie",
            CERTAIN if host else LIKELY,
            f"{said}large messages reach {_rate(plateau)}: PCIe or host memory, not the GPU links ({_expected(curve)})",
            "check peer access and the link state (rocm-smi --showtopo, amd-smi topology), IOMMU/ACS settings and NCCL_P2P_DISABLE",
            _lines(_low_not_small(curve)),
        )


def low_latency_protocol(curve: Curve) -> Iterator[Cause]:
    large = [p for p in curve.steady if p.is_large]
    if not large or not curve.large_is_low:
        return
    forced = curve.launch.settings.get("NCCL_PROTO", "").upper() == "LL"
    printed = any(p.protocol == "ll" for p in large)
    facts = signs()
    low, high = facts.low_latency_share_across if curve.machine.crosses_domains else facts.low_latency_share
    speed = curve.large_speed or 0.0
    if forced or printed or (_only_large_is_low(curve) and low <= speed <= high):
        said = "the log says LL; " if forced or printed else ""
        yield Cause(
            "low-latency-protocol",
            CERTAIN if forced or printed else POSSIBLE,
            f"{said}large messages run at {speed:.0%} of the expected bandwidth, small ones normally: "
            "the LL protocol spends half of every store on a flag",
            "unset NCCL_PROTO; large messages want Simple (or LL128)",
            _lines(_low_not_small(curve)),
        )


def single_process(curve: Curve) -> Iterator[Cause]:
    floor, expected = curve.floor_s, _expected_floor(curve)
    if floor is None or expected is None or curve.machine.crosses_domains:
        return
    low, high = signs().single_process_floor_s
    raised = floor > FLOOR_RATIO * expected
    if not raised or not (curve.launch.single_process or low <= floor <= high):
        return
    sure = curve.launch.single_process
    said = "one process drives all GPUs: " if sure else ""
    yield Cause(
        "single-process",
        CERTAIN if sure else POSSIBLE,
        f"{said}small messages take {_time(floor)} where one process per GPU takes {_time(expected)}",
        "start one process per GPU (mpirun -np 8 … -g 1): a single process launches the GPUs one after another",
        _lines(p for p in curve.steady if p.is_low and not p.is_large),
    )


def uniform(curve: Curve) -> Iterator[Cause]:
    """Small and large messages slow by one factor: clocks or memory of the host, not a link."""
    speeds = sorted(p.speed for p in curve.steady)
    small, large = curve.small_speed, curve.large_speed
    if small is None or large is None or not curve.large_is_low or curve.spread > UNIFORM_SPREAD:
        return
    middle = speeds[len(speeds) // 2]
    yield Cause(
        "numa-or-clock",
        LIKELY,
        f"all sizes run at {middle:.0%} of the expected speed, small and large alike",
        "check GPU and fabric clocks (power cap, perf level), CPU governor, NUMA binding (numactl, NPS mode) and that nothing else runs",
        _lines(curve.steady),
    )


def slow_link(curve: Curve) -> Iterator[Cause]:
    """Large messages slow, small ones not, and no whole number of links or NICs: the slowest one sets the pace."""
    if not _only_large_is_low(curve) or not _low_plateau(curve):
        return
    plateau, speed = curve.plateau_Bps or 0.0, curve.large_speed or 0.0
    links = _mesh_links(curve)
    if links is not None:
        one, count = links
        what = f"{count} x {_rate(plateau / count)}: a link at {speed:.0%} of {_rate(one)} would do it, the slowest sets the pace"
        advice = "measure each pair (TransferBench a2a, rocm-bandwidth-test) and look for retrained or degraded links (amd-smi xgmi)"
    else:
        what = f"{speed:.0%} of {_expected(curve)}: one slow link or NIC sets the pace of all, or every step pays a fixed cost"
        advice = "measure each link and NIC alone (ib_write_bw per rail, nvbandwidth or TransferBench); check PCIe width, ACS and congestion"
    sure = (
        LIKELY
        if not (
            list(few_links(curve)) or list(few_nics(curve)) or list(pcie(curve)) or list(tcp_fallback(curve))
        )
        else POSSIBLE
    )
    yield Cause(
        "slow-link",
        sure,
        f"large messages reach {_rate(plateau)}: {what}",
        advice,
        _lines(_low_not_small(curve)),
    )


RULES: tuple[Rule, ...] = (
    collapse,
    tcp_fallback,
    few_nics,
    few_links,
    pcie,
    low_latency_protocol,
    single_process,
    uniform,
    slow_link,
)


def _mesh_links(curve: Curve) -> tuple[float, int] | None:
    """(usable bandwidth of one link, links of each GPU within the group) of a full mesh inside one domain."""
    scale_up = curve.machine.node.scale_up
    if curve.machine.crosses_domains or scale_up.kind != "mesh":
        return None
    return scale_up.usable_bandwidth_Bps * curve.machine.stack.scale_up_efficiency, curve.machine.ranks - 1


def _only_large_is_low(curve: Curve) -> bool:
    small = curve.small_speed
    slow_process = small is not None and small < SMALL_IS_NORMAL and curve.launch.single_process
    return curve.large_is_low and (small is None or small >= SMALL_IS_NORMAL or slow_process)


def _low_plateau(curve: Curve) -> bool:
    """Large messages all reach one bandwidth, and it is too low."""
    return curve.large_is_low and curve.has_plateau


def _low_not_small(curve: Curve) -> Iterator[Point]:
    return (p for p in curve.steady if p.is_low and not p.is_small)


def _expected_floor(curve: Curve) -> float | None:
    small = [p.predicted_s for p in curve.steady if p.is_small]
    return sorted(small)[len(small) // 2] if small else None


def _lines(points: Iterable[Point]) -> tuple[int, ...]:
    return tuple(p.line for p in points)


def _expected(curve: Curve) -> str:
    return _rate(curve.expected_plateau_Bps or 0.0)


def _rate(value_Bps: float) -> str:
    return format_quantity(value_Bps, "bandwidth", digits=3)


def _time(seconds: float) -> str:
    return format_quantity(seconds, "time", digits=3)


def _size(point: Point) -> str:
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if point.size_bytes >= scale:
            return f"{point.size_bytes / scale:g} {unit}"
    return f"{point.size_bytes} B"
