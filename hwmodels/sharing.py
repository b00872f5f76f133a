"""Max-min fair progress of a few transfers over shared links, in plain Python.

The same fairness as ``hwmodels.maxmin``, for the handful of transfers that meet on one rank's links while
an engine runs: there a call costs microseconds, where arrays would cost a hundred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SLACK = 1e-12  # links this close to full count as full


def fair_progress(usages: Sequence[Mapping[str, float]]) -> list[float]:
    """Speed of each transfer, as a fraction of its speed alone.

    ``usages[i][link]`` is the fraction of the link that transfer i takes at full speed (0 to 1). All rise
    at equal shares of their busiest link until a link is full or they run at full speed; no transfer can
    then gain without another one at most as fast losing.
    """
    weight = [1.0 / max(use.values(), default=1.0) for use in usages]
    speed = [1.0] * len(usages)
    rising = set(range(len(usages)))
    left = {link: 1.0 for use in usages for link in use}
    while rising:
        level, full = _next_level(usages, weight, rising, left)
        done = {i for i in rising if weight[i] * level >= 1.0 - SLACK or full & usages[i].keys()}
        for i in sorted(done):
            speed[i] = min(1.0, weight[i] * level)
            for link, use in usages[i].items():
                left[link] = max(0.0, left[link] - use * speed[i])
        rising -= done
    return speed


def _next_level(
    usages: Sequence[Mapping[str, float]],
    weight: Sequence[float],
    rising: set[int],
    left: Mapping[str, float],
) -> tuple[float, set[str]]:
    """The share at which the next link is full or the next transfer at full speed, and the full links."""
    load: dict[str, float] = {}
    for i in rising:
        for link, use in usages[i].items():
            load[link] = load.get(link, 0.0) + use * weight[i]
    levels = {link: left[link] / total for link, total in load.items() if total > 0.0}
    own = min(1.0 / weight[i] for i in rising)
    level = min([own, *levels.values()])
    return level, {link for link, value in levels.items() if value <= level * (1.0 + SLACK)}
