"""The keys of a micro-ledger row by benchmark, as the subject that was measured and the figure."""

from __future__ import annotations

from collections.abc import Callable

from sim.ledger.fields import FieldReader
from sim.ledger.micro_row import (
    Attention,
    Clock,
    Collective,
    Gemm,
    Message,
    Overlap,
    Shape,
    Stream,
    Subject,
)
from sim.scenario.errors import Problem
from sim.scenario.yaml_document import Items, plain

COMMON_KEYS = (
    "kind",
    "confidence",
    "split",
    "library",
    "note",
    "set_aside",
    "overhead_us",
    "issue_us",
    "what",
)
KEYS = {
    "gemm": (
        "gpu", "dtype", "m", "n", "k", "shapes", "batch", "data", "clock_MHz", "power_cap_W", "TFLOPs", "time_us", "MHz",
    ),
    "attention": (
        "gpu", "direction", "mask", "dtype", "batch", "heads", "kv_heads", "sequence", "head_dim", "TFLOPs",
    ),
    "stream": ("gpu", "test", "op", "sequence", "bytes", "GBps", "time_us"),
    "clock": ("gpu", "dtype", "data", "power_cap_W", "m", "n", "k", "MHz", "watts", "fraction", "from"),
    "overlap": ("gpu", "gemm", "slowdown"),
    "collective": (
        "node", "stack", "op", "ranks", "nodes", "rings_per_node", "size", "in_place", "launch", "algorithm", "time_us",
        "busbw_GBps", "algbw_GBps", "gcds", "GBps", "rdma_GBps", "peak_GBps", "tokens",
    ),
    "message": ("nic", "op", "devices", "size", "batch", "time_us"),
    "constants": (
        "model", "scope", "parameter", "tree_ll", "tree_ll128", "tree_simple", "ring_ll", "ring_ll128", "ring_simple",
    ),
}  # fmt: skip
ALGORITHMS = ("auto", "ring", "in-switch")

# Batch and heads of sources that state none: enough to fill any GPU.
NOMINAL_BATCH, NOMINAL_HEADS = 16, 16


def subject(benchmark: str, reader: FieldReader) -> Subject | None:
    """What the row measured; None (and problems in ``reader``) when keys are missing."""
    build = _BUILDERS.get(benchmark)
    if build is None:
        reader.missing("set_aside", f"{benchmark} are never scored: say why")
        return None
    before = len(reader.problems)
    built = build(reader)
    return built if len(reader.problems) == before else None


def figure(reader: FieldReader, what: Subject) -> tuple[float, str]:
    """The measured figure in SI and its unit."""
    known = (
        ("TFLOPs", 1e12, "FLOP/s"),
        ("GBps", 1e9, "B/s"),
        ("busbw_GBps", 1e9, "B/s"),
        ("algbw_GBps", 1e9, "B/s"),
        ("time_us", 1e-6, "s"),
        ("MHz", 1e6, "Hz"),
        ("slowdown", 1.0, "x"),
    )
    for key, scale, unit in known:
        value = reader.number(key)
        if value is None or (key == "MHz" and not isinstance(what, Clock)):
            continue
        if key == "algbw_GBps" and isinstance(what, Collective):
            value *= what.bus_factor
        return value * scale, unit
    reader.missing(known[0][0], f"the measured figure, one of {', '.join(key for key, _, _ in known)}")
    return 1.0, "s"


def _gemm(reader: FieldReader) -> Gemm:
    return Gemm(
        gpu=_text(reader, "gpu"),
        dtype=_text(reader, "dtype"),
        shapes=_shapes(reader),
        batch=int(reader.number("batch") or 1),
        clock_Hz=_scaled(reader, "clock_MHz", 1e6),
        power_cap_W=reader.number("power_cap_W"),
    )


def _shapes(reader: FieldReader) -> tuple[Shape, ...]:
    node = reader.node("shapes")
    if node is None:
        return ((_whole(reader, "m"), _whole(reader, "n"), _whole(reader, "k")),)
    values = plain(node) if isinstance(node, Items) else []
    shapes = [tuple(shape) for shape in values if isinstance(shape, list) and len(shape) == 3]
    if not shapes or len(shapes) != len(values) or not all(isinstance(x, int) for s in shapes for x in s):
        message = "should be a list of [m, n, k]"
        reader.problems.append(Problem(node.position, f"{reader.path}.shapes", message))
    return tuple((m, n, k) for m, n, k in shapes)


def _attention(reader: FieldReader) -> Attention:
    heads = int(reader.number("heads") or NOMINAL_HEADS)
    return Attention(
        gpu=_text(reader, "gpu"),
        direction=_text(reader, "direction", ("forward", "backward")),
        mask=_text(reader, "mask", ("causal", "full")),
        sequence=_whole(reader, "sequence"),
        head_dim=_whole(reader, "head_dim"),
        batch=int(reader.number("batch") or NOMINAL_BATCH),
        heads=heads,
        kv_heads=int(reader.number("kv_heads") or heads),
    )


def _stream(reader: FieldReader) -> Stream:
    moved = reader.number("bytes")
    if moved is None and reader.entry("GBps") is None:
        reader.missing("bytes", "what the kernel reads and writes, to turn a time into a bandwidth")
    return Stream(_text(reader, "gpu"), _text(reader, "op"), moved)


def _clock(reader: FieldReader) -> Clock:
    cap = reader.number("power_cap_W")
    if cap is None:
        reader.missing("power_cap_W", "the power cap under which the clock was held")
    return Clock(_text(reader, "gpu"), _text(reader, "dtype"), cap or 1.0)


def _overlap(reader: FieldReader) -> Overlap:
    return Overlap(_text(reader, "gpu"), _text(reader, "gemm"))


def _collective(reader: FieldReader) -> Collective:
    ranks, nodes = _whole(reader, "ranks"), _whole(reader, "nodes")
    if ranks % nodes:
        reader.missing("ranks", f"a multiple of nodes ({nodes})")
    return Collective(
        node=_text(reader, "node"),
        op=_text(reader, "op"),
        ranks=ranks,
        nodes=nodes,
        size_bytes=float(_whole(reader, "size")),
        algorithm=reader.text("algorithm", ALGORITHMS) or "auto",
        rings_per_node=int(reader.number("rings_per_node") or 1),
        stack=reader.text("stack") or None,
    )


def _message(reader: FieldReader) -> Message:
    return Message(_text(reader, "nic"), float(_whole(reader, "size")), _whole(reader, "batch"))


def _text(reader: FieldReader, key: str, choices: tuple[str, ...] = ()) -> str:
    if reader.entry(key) is None:
        reader.missing(key, f"one of {', '.join(choices)}" if choices else "what was measured")
    return reader.text(key, choices)


def _whole(reader: FieldReader, key: str) -> int:
    """A positive whole number; 1 (and a problem) when absent."""
    if reader.entry(key) is None:
        reader.missing(key, "a whole number")
    return int(reader.number(key) or 1)


def _scaled(reader: FieldReader, key: str, scale: float) -> float | None:
    value = reader.number(key)
    return None if value is None else value * scale


_BUILDERS: dict[str, Callable[[FieldReader], Subject]] = {
    "gemm": _gemm,
    "attention": _attention,
    "stream": _stream,
    "clock": _clock,
    "overlap": _overlap,
    "collective": _collective,
    "message": _message,
}
