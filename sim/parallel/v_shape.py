"""Schedules of a folded model: each stage holds a part on the way down and one on the way up.

ZBV (Qi et al. 2023, "Zero Bubble Pipeline Parallelism") keeps as many activations on every stage as
1F1B on its first and has next to no bubble. V-half and V-min (Qi et al. 2024, "Pipeline Parallelism
with Controllable Memory") repeat a block of four passes whose gaps decide how long activations live.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations, product

from sim.parallel.passes import BACKWARD, FORWARD, Order, Pass

PERIOD = 6
"""Units of time in which a stage runs one micro-batch: forward, input and weight gradient of two parts."""

LONGEST_TURN = 5

GAPS = {"v-min": (1, 1, 1, 1), "v-half": (1, 2, 1, 2)}
"""Units from one stage to the next: forward down, forward up, backward down, backward up.

The two activations of a micro-batch live for their sum times (stages - 1) in ``PERIOD`` units: 4 gives a
third of what 1F1B's first stage holds, 6 gives half.
"""

Times = tuple[int, int, int, int]
"""Units at which a stage runs the four passes of micro-batch 0."""


def zbv(stage: int, stages: int, microbatches: int) -> Order:
    """Forwards and input gradients of ``stage``; their weight gradients fill the waits.

    Fewer micro-batches than 2·stages-1 run what is theirs of the order for so many.
    """
    kinds = _kinds(stage, stages)
    letters = dict(zip("fFBb", kinds, strict=True))  # capitals: the part on the way up
    rest = max(2 * stages - 1, microbatches) - 2 * stages + 1 + stage
    warmup = "f" * (2 * (stages - stage) - 1) + "Ff" * stage + "FB" * (stages - stage)
    cooldown = "bFB" * (stages - 1 - stage) + "bB" * stage + "b" * (stages - stage)
    seen = dict.fromkeys(letters, 0)
    order: list[Pass] = []
    for letter in warmup + "fbFB" * rest + cooldown:
        order.append(Pass(*letters[letter], seen[letter]))
        seen[letter] += 1
    return tuple(one for one in order if one.microbatch < microbatches)


def repeated(schedule: str, stages: int, microbatches: int) -> tuple[Order, ...]:
    """V-min or V-half: the block of one micro-batch, again every ``PERIOD`` units; only the order counts."""
    orders = []
    for stage, times in enumerate(_block(schedule, stages)):
        starts = [
            (time + PERIOD * m, Pass(*kind, m))
            for m in range(microbatches)
            for time, kind in zip(times, _kinds(stage, stages), strict=True)
        ]
        orders.append(tuple(one for _, one in sorted(starts)))
    return tuple(orders)


def most_held(schedule: str, stages: int) -> int:
    """Passes that the fullest stage has run forward and not yet backward, weight gradients included."""
    return max(_held(times) for times in _block(schedule, stages))


def _kinds(stage: int, stages: int) -> tuple[tuple[str, int], ...]:
    up = 2 * stages - 1 - stage
    return ((FORWARD, stage), (FORWARD, up), (BACKWARD, up), (BACKWARD, stage))


@cache
def _block(schedule: str, stages: int) -> tuple[Times, ...]:
    """Times of every stage, with the turns that hold the least and, of those, take the least time."""
    turns = product(range(1, LONGEST_TURN + 1), repeat=3)
    blocks = [(sum(turn), _times(GAPS[schedule], turn, stages)) for turn in turns]
    fitting = [(waited, block) for waited, block in blocks if all(_apart(times) for times in block)]
    return min(fitting, key=lambda one: (max(_held(times) for times in one[1]), one[0]))[1]


def _times(gaps: tuple[int, ...], turns: tuple[int, ...], stages: int) -> tuple[Times, ...]:
    """``turns``: units between the end of the way down and the way up, up and back, and so on."""
    last = stages - 1
    up = last * gaps[0] + turns[0]
    back_down = up + last * gaps[1] + turns[1]
    back_up = back_down + last * gaps[2] + turns[2]
    return tuple(
        (
            stage * gaps[0],
            up + (last - stage) * gaps[1],
            back_down + stage * gaps[2],
            back_up + (last - stage) * gaps[3],
        )
        for stage in range(stages)
    )


def _apart(times: Times) -> bool:
    """Whether the passes of different micro-batches never fall on one another."""
    return len({time % PERIOD for time in times}) == len(times)


def _held(times: Times) -> int:
    """Activations alive at once when each weight gradient takes the next free unit after its backward."""
    down, up, back_down, back_up = times
    free = set(range(PERIOD)) - {time % PERIOD for time in times}
    return min(
        _most_alive((up, _next(back_down, first)), (down, _next(back_up, second)))
        for first, second in permutations(free)
    )


def _next(time: int, residue: int) -> int:
    return time + 1 + (residue - time - 1) % PERIOD


def _most_alive(*spans: tuple[int, int]) -> int:
    """Most spans, each repeated every ``PERIOD`` units, that hold one instant (both ends included)."""
    return max(
        sum((last - at) // PERIOD - (first - at - 1) // PERIOD for first, last in spans)
        for at in range(PERIOD)
    )
