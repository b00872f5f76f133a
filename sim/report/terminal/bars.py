"""Horizontal bars of block characters, exact to an eighth of a cell."""

from __future__ import annotations

from rich.text import Text

_EIGHTHS = " ▏▎▍▌▋▊▉"
CAPACITY = "┃"
# Totals of HBM as (block, colour): what tensors hold, the allocator's slack, the rest of the device. Greys, because
# hues belong to causes; the blocks differ too, for terminals without colour.
ALLOCATED, RESERVED, DEVICE = ("█", "#5B6B7F"), ("▓", "#8FA0B3"), ("░", "#B4BEC9")


def bar(fraction: float, cells: int, colour: str) -> Text:
    """A bar over ``fraction`` (0 to 1) of ``cells``; anything above zero shows at least a sliver."""
    eighths = round(max(0.0, min(1.0, fraction)) * cells * 8)
    if fraction > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(eighths, 8)
    blocks = ALLOCATED[0] * whole + (_EIGHTHS[rest] if rest else "")
    return Text(blocks.ljust(cells), style=colour)


def memory_bar(
    allocated_bytes: float, reserved_bytes: float, device_bytes: float, capacity_bytes: float, cells: int
) -> Text:
    """The fill of one HBM in nested totals, with a line at its capacity, on a scale that ends at the larger of capacity and device-used (in bytes)."""
    end = max(capacity_bytes, device_bytes)
    filled = [round(cells * part / end) for part in (allocated_bytes, reserved_bytes, device_bytes)]
    line = min(cells - 1, round(cells * capacity_bytes / end) - 1)
    text = Text()
    for cell in range(cells):
        if cell == line:
            text.append(CAPACITY, style="bold red")
        else:
            text.append(*_memory_cell(cell, filled, over=cell > line))
    return text


def _memory_cell(cell: int, filled: list[int], *, over: bool) -> tuple[str, str]:
    for end, (block, colour) in zip(filled, (ALLOCATED, RESERVED, DEVICE), strict=True):
        if cell < end:
            return block, "red" if over else colour
    return "·", "dim"
