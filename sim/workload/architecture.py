"""A dense decoder (or encoder) transformer as its published configuration describes it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Architecture:
    """Widths and counts of one model. All derived figures are exact, none is tabulated."""

    name: str
    title: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    mlp: str  # "swiglu" (three matrices) | "gelu" (two)
    norm: str  # "rmsnorm" (weight) | "layernorm" (weight and bias)
    position: str  # "rope" | "alibi" | "learned" | "none"
    max_positions: int  # rows of a learned position table
    tied_embeddings: bool
    qkv_bias: bool
    linear_bias: bool  # on every other linear layer
    causal: bool
    published_parameters: float | None
    source: str
    qk_norm: bool = False  # a norm weight of head_dim on queries and on keys, in every layer

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def ffn_in_width(self) -> int:
        """Output width of the first MLP matrix (gate and up side by side for SwiGLU)."""
        return (2 if self.mlp == "swiglu" else 1) * self.ffn

    @property
    def norm_parameters(self) -> int:
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def layer_linear_parameters(self) -> int:
        """Weights of the four linear layers of one block (no biases, no norms)."""
        h, q, k = self.hidden, self.q_width, self.kv_width
        return h * (q + 2 * k) + q * h + h * self.ffn_in_width + self.ffn * h

    @property
    def layer_parameters(self) -> int:
        biases = 0
        if self.qkv_bias:
            biases += self.q_width + 2 * self.kv_width
        if self.linear_bias:
            biases += self.hidden + self.ffn_in_width + self.hidden
        qk_norms = 2 * self.head_dim if self.qk_norm else 0
        return self.layer_linear_parameters + biases + qk_norms + 2 * self.norm_parameters

    @property
    def embedding_parameters(self) -> int:
        learned = self.max_positions * self.hidden if self.position == "learned" else 0
        return self.vocab * self.hidden + learned

    @property
    def head_parameters(self) -> int:
        """Output projection of its own (zero when tied)."""
        return 0 if self.tied_embeddings else self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        return (
            self.layers * self.layer_parameters
            + self.embedding_parameters
            + self.head_parameters
            + self.norm_parameters
        )

    def with_positions(self, positions: int) -> Architecture:
        """The same model with a learned position table of ``positions`` rows.

        Raises ``ValueError`` for a model without such a table or for less than one row.
        """
        if self.position != "learned":
            raise ValueError(f"{self.name} has no learned position table but {self.position}")
        if positions < 1:
            raise ValueError(f"{positions} positions: a position table has at least one row")
        if positions == self.max_positions:
            return self
        return replace(self, max_positions=positions, published_parameters=None)
