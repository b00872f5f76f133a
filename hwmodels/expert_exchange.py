"""Seconds for sending tokens to the ranks of their experts, or their results back."""

from __future__ import annotations

import math

from hwmodels.collectives import CollectiveModel


def token_exchange_s(
    model: CollectiveModel,
    token_bytes: float,
    copies: float,
    domain_copies: float,
    size: int,
    per_domain: int,
    stride: int | None = None,
) -> float:
    """One direction over a group of ``size`` ranks, ``per_domain`` of them in a scale-up domain.

    ``token_bytes`` are those of all tokens of one rank, each of which goes to ``copies`` places on
    average. ``domain_copies`` 0 is an all-to-all as the library has it. Otherwise a token crosses the
    network once per domain that it goes to, and is handed on inside: both at the same time, so that the
    slower of the two counts (DeepEP and its relatives).
    """
    if not domain_copies:
        return model.seconds("all_to_all", token_bytes * copies, size, per_domain, stride=stride)
    inside = min(size, per_domain)
    domains = math.ceil(size / per_domain)
    near = model.seconds("all_to_all", token_bytes * copies, inside, inside, stride=stride)
    step = None if stride is None else stride * per_domain
    far = model.seconds("all_to_all", token_bytes * domain_copies, domains, 1, stride=step)
    return max(near, far)
