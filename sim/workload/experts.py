"""Mixture of experts: what replaces the MLP in the layers that route tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experts:
    """``count`` experts of inner width ``ffn``, of which a router picks ``top_k`` for every token.

    ``shared_ffn`` is the summed inner width of the experts that every token visits. The first
    ``dense_layers`` layers keep their dense MLP, and of the layers after them every ``every``-th (the
    last of each such run) is routed. With ``groups`` the router first picks ``group_limit`` of that many
    equal groups of experts. ``router_bias``: one bias per expert; ``shared_gate``: a learned scale of the
    shared experts' output.
    """

    count: int
    top_k: int
    ffn: int
    shared_ffn: int = 0
    dense_layers: int = 0
    every: int = 1
    groups: int = 1
    group_limit: int = 1
    router_bias: bool = False
    shared_gate: bool = False

    def routed(self, layer: int) -> bool:
        """Whether layer ``layer`` (from 0) routes its tokens."""
        behind = layer - self.dense_layers
        return behind >= 0 and (behind + 1) % self.every == 0

    def routed_layers(self, layers: int) -> int:
        return max(0, layers - self.dense_layers) // self.every

    def router_parameters(self, hidden: int) -> int:
        return (
            hidden * self.count
            + (self.count if self.router_bias else 0)
            + (hidden if self.shared_gate else 0)
        )
