"""Multi-head latent attention: queries, keys and values come from narrow latents (DeepSeek-V2, arXiv:2405.04434)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LatentAttention:
    """Ranks and widths. Keys are ``plain_dim`` + ``rope_dim`` wide per head, values ``value_dim``.

    ``query_rank`` 0 projects queries straight from the hidden state. The rotated part of the keys is one
    vector for all heads.
    """

    query_rank: int
    kv_rank: int
    rope_dim: int
    plain_dim: int
    value_dim: int

    @property
    def key_dim(self) -> int:
        return self.plain_dim + self.rope_dim

    @property
    def norm_parameters(self) -> int:
        """One weight per latent element."""
        return self.query_rank + self.kv_rank

    def down_parameters(self, hidden: int) -> int:
        """Projections to the latents: the same on every tensor-parallel rank."""
        return hidden * (self.query_rank + self.kv_rank + self.rope_dim)

    def up_parameters(self, hidden: int, heads: int) -> int:
        """Projections from the latents to all heads and back to the hidden state: split over heads."""
        queries = (self.query_rank or hidden) * heads * self.key_dim
        return (
            queries
            + self.kv_rank * heads * (self.plain_dim + self.value_dim)
            + heads * self.value_dim * hidden
        )
