"""What the rows of an rccl-tests table say about its collective and its ranks, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.interop.bus_bandwidth import COLLECTIVES, MOST_RANKS, agreed, bus_factor, ranks_of
from sim.interop.printed import Printed
from sim.interop.rccl_launch import Launch
from sim.interop.rccl_rows import HalfRow, RcclRow

_ROUNDING = (
    1e-3  # beyond that of the printed digits: published tables often have one column computed from another
)
_FILE_WORDS = {"all_gather": ("all_gather", "allgather"), "all_to_all": ("all_to_all", "alltoall")}


@dataclass(frozen=True)
class Inference:
    """``contradictions`` and ``warnings`` are located messages; ``odd_rows`` the lines of rows at odds with themselves."""

    collective: str | None
    ranks: int | None
    odd_rows: tuple[int, ...]
    contradictions: tuple[str, ...]
    warnings: tuple[str, ...]


def infer(path: str, rows: Sequence[RcclRow], launch: Launch, element_bytes: Mapping[str, int]) -> Inference:
    """Collective and number of ranks of one table, from its counts, its bandwidths and its launch."""
    parts = _parts(rows, element_bytes)
    collective = launch.test or _collective(path, rows, parts)
    odd = _wrong_rates(rows)
    contradictions: list[str] = []
    warnings: list[str] = []
    spans = _spans(rows, collective) if collective else {}
    span = agreed(spans.values())
    stated = launch.stated_ranks
    if stated is None and launch.devices:
        stated = len(launch.devices)
    ranks = _ranks(span, parts, stated)
    if collective is None:
        warnings.append(
            f"{path}:{rows[0].line if rows else 1}: which collective this is cannot be told from the rows: "
            "keep the command line (…_perf) in the log"
        )
    elif ranks is not None:
        odd += _odd_rows(rows, collective, ranks)
        contradictions += _other_ranks(path, rows, launch, ranks, measured=span is not None or parts > 1)
        if launch.devices and len(launch.devices) < ranks:
            warnings.append(
                f"{path}: the device list shows {len(launch.devices)} of {ranks} ranks; "
                f"{ranks} follows from the rows"
            )
    lines = tuple(dict.fromkeys(line for line, _ in odd))
    messages = (*contradictions, *(f"{path}:{line}: {message}" for line, message in odd))
    return Inference(collective, ranks, lines, messages, tuple(warnings))


def _parts(rows: Sequence[RcclRow], element_bytes: Mapping[str, int]) -> int:
    """Size over count x element: the number of ranks where ``count`` is per rank, 1 where it is the buffer, 0 unknown."""
    found = {
        row.size_bytes / (row.count * element_bytes[row.dtype])
        for row in rows
        if row.count and row.dtype in element_bytes
    }
    if len(found) != 1:
        return 0
    parts = found.pop()
    return int(parts) if parts == int(parts) and 1 <= parts <= MOST_RANKS else 0


def _collective(path: str, rows: Sequence[RcclRow], parts: int) -> str | None:
    """From the reduction, the root, whether buffers are shared out, and the ratio of the bandwidths."""
    if not rows or not parts:
        return None
    reduces = rows[0].redop not in ("none", "")
    rooted = rows[0].root is not None
    shared = parts > 1
    if reduces:
        if shared:
            return "reduce_scatter"
        return "reduce" if rooted else "all_reduce"
    if not rows[0].redop:
        return None
    if not shared:
        return "broadcast" if rooted else "send"
    return None if rooted else _gather_or_exchange(path, rows)


def _gather_or_exchange(path: str, rows: Sequence[RcclRow]) -> str | None:
    """An all-to-all cannot be run in place: there its in-place half is marked N/A."""
    name = Path(path).name.lower().replace("-", "_")
    for collective, words in _FILE_WORDS.items():
        if any(word in name for word in words):
            return collective
    halves = [row.in_place for row in rows if row.in_place is not None]
    if not halves:
        return None
    unchecked = all(half.wrong is None for half in halves)
    checked = any(row.out_of_place is not None and row.out_of_place.wrong is not None for row in rows)
    if unchecked:
        return "all_to_all" if checked else None
    return "all_gather"


def _spans(rows: Sequence[RcclRow], collective: str) -> dict[int, tuple[int, int]]:
    """By line: the numbers of ranks that the printed bandwidths of a row allow. Rows too slow to tell are left out."""
    spans: dict[int, tuple[int, int]] = {}
    if not COLLECTIVES.get(collective):
        return spans
    for row in rows:
        for half in row.halves:
            allowed = _allowed(half, collective)
            if allowed is not None and allowed[1] < MOST_RANKS:
                spans[row.line] = allowed
    return spans


def _allowed(half: HalfRow, collective: str) -> tuple[int, int] | None:
    if half.algbw_GBps is None or half.busbw_GBps is None or not half.algbw_GBps.low:
        return None
    return ranks_of(collective, *half.busbw_GBps.over(half.algbw_GBps))


def _ranks(span: tuple[int, int] | None, parts: int, stated: int | None) -> int | None:
    """Counts per rank are exact; then a statement that the bandwidths allow; then the bandwidths alone."""
    if parts > 1:
        return parts
    if span is None:
        return stated
    if stated is not None and span[0] <= stated <= span[1]:
        return stated
    return span[0] if span[0] == span[1] else None


def _wrong_rates(rows: Sequence[RcclRow]) -> list[tuple[int, str]]:
    """Rows whose algorithm bandwidth is not size over time beyond the rounding of both."""
    found = []
    for row in rows:
        for half in row.halves:
            if half.time_us is None or half.algbw_GBps is None:
                continue
            exact = Printed(row.size_bytes * 1e-3, 0.0).over(half.time_us)  # bytes/us * 1e-3 = GB/s
            if half.algbw_GBps.high < exact[0] * (1 - _ROUNDING) or half.algbw_GBps.low > exact[1] * (
                1 + _ROUNDING
            ):
                rate = row.size_bytes / half.time_us.value / 1e3
                message = (
                    f"algbw {half.algbw_GBps.value:g} GB/s is not size over time: "
                    f"{row.size_bytes} B in {half.time_us.value:g} us is {rate:.2f} GB/s"
                )
                found.append((row.line, message))
    return found


def _odd_rows(rows: Sequence[RcclRow], collective: str, ranks: int) -> list[tuple[int, str]]:
    """Rows whose busbw/algbw fits another number of ranks than the table's."""
    factor, found = bus_factor(collective, ranks), []
    for row in rows:
        for half in row.halves:
            if half.algbw_GBps is None or half.busbw_GBps is None or not half.algbw_GBps.low:
                continue
            low, high = half.busbw_GBps.over(half.algbw_GBps)
            if not low * (1 - _ROUNDING) <= factor <= high * (1 + _ROUNDING):
                ratio = half.busbw_GBps.value / half.algbw_GBps.value
                message = f"busbw/algbw is {ratio:.4g}: {collective} on {ranks} ranks has {factor:.4g}"
                found.append((row.line, message))
    return found


def _other_ranks(
    path: str, rows: Sequence[RcclRow], launch: Launch, ranks: int, *, measured: bool
) -> list[str]:
    """The launch asks for, or lists, other ranks than the rows show. A list that is too short may be an excerpt."""
    if not measured:
        return []
    at = f"{path}:{rows[0].line}"
    if launch.stated_ranks is not None and launch.stated_ranks != ranks:
        return [f"{at}: the launch asks for {launch.stated_ranks} ranks, busbw/algbw says {ranks}"]
    if len(launch.devices) > ranks:
        return [f"{at}: the log lists {len(launch.devices)} devices, busbw/algbw says {ranks} ranks"]
    return []
