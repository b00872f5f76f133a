"""A transformer, dense or with experts, as its published configuration describes it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.workload.experts import Experts
from sim.workload.latent_attention import LatentAttention


@dataclass(frozen=True)
class LayerKind:
    """What may differ between the layers of one model: ``window`` 0 attends to everything before."""

    routed: bool = False
    window: int = 0


@dataclass(frozen=True)
class Architecture:
    """Widths and counts of one model. All derived figures are exact, none is tabulated.

    ``ffn`` is the inner width of the dense MLP, ``head_dim`` the width of queries and keys. With a
    ``window`` a token attends to that many before it, except in every ``full_every``-th layer (0: in none).
    ``sinks``: one learned logit per head. ``mtp_layers`` predict further tokens: each is one more layer
    with a projection of its own, and runs the output projection again.
    """

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
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int = 0
    full_every: int = 0
    sinks: bool = False
    mtp_layers: int = 0

    def kind(self, layer: int) -> LayerKind:
        """Which kind layer ``layer`` (from 0) is."""
        full = not self.window or (self.full_every > 0 and (layer + 1) % self.full_every == 0)
        routed = self.experts is not None and self.experts.routed(layer)
        return LayerKind(routed, 0 if full else self.window)

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The kind of every layer in order."""
        return tuple(self.kind(layer) for layer in range(self.layers))

    @property
    def value_dim(self) -> int:
        """Width of one head's values."""
        return self.head_dim if self.latent is None else self.latent.value_dim

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
    def attention_parameters(self) -> int:
        """Weights of one layer's attention projections (no biases, no norms)."""
        h, q, k = self.hidden, self.q_width, self.kv_width
        if self.latent is not None:
            return self.latent.down_parameters(h) + self.latent.up_parameters(h, self.heads)
        return h * (q + 2 * k) + q * h

    @property
    def mlp_parameters(self) -> int:
        """Weights of the dense MLP."""
        return self._mlp(self.ffn)

    @property
    def expert_parameters(self) -> int:
        """Weights and biases of one routed expert; zero without experts."""
        return 0 if self.experts is None else self._mlp(self.experts.ffn) + self._mlp_biases(self.experts.ffn)

    @property
    def layer_linear_parameters(self) -> int:
        """Weights of the linear layers of one dense block (no biases, no norms)."""
        return self.attention_parameters + self.mlp_parameters

    @property
    def layer_parameters(self) -> int:
        """One dense block."""
        return self.layer_linear_parameters + self.attention_extras + self._mlp_biases(self.ffn)

    @property
    def routed_layer_parameters(self) -> int:
        """One block with experts, all of them. Raises ``ValueError`` for a dense model."""
        experts = self._routed_experts
        return self.routed_layer_replicated + experts.count * self.expert_parameters

    @property
    def routed_layer_replicated(self) -> int:
        """A block with experts without them: attention, router, shared experts, norms."""
        experts = self._routed_experts
        shared = self._mlp(experts.shared_ffn)
        if experts.shared_ffn:
            shared += self._mlp_biases(experts.shared_ffn)
        return (
            self.attention_parameters
            + self.attention_extras
            + experts.router_parameters(self.hidden)
            + shared
        )

    @property
    def attention_extras(self) -> int:
        """Biases of the attention block and all norms of a layer."""
        biases = 0
        if self.qkv_bias:
            biases += self.q_width + 2 * self.kv_width
        if self.linear_bias:
            biases += self.hidden
        qk_norms = 2 * self.head_dim if self.qk_norm else 0
        latents = 0 if self.latent is None else self.latent.norm_parameters
        sinks = self.heads if self.sinks else 0
        return biases + qk_norms + latents + sinks + 2 * self.norm_parameters

    @property
    def mtp_parameters(self) -> int:
        """What predicts further tokens: per step one layer, a projection of 2h to h, and three norms."""
        layer = self.layer_parameters if self.experts is None else self.routed_layer_parameters
        return self.mtp_layers * (layer + 2 * self.hidden * self.hidden + 3 * self.norm_parameters)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: ``top_k`` experts of each routed layer instead of all."""
        if self.experts is None:
            return self.parameters
        idle = (self.experts.count - self.experts.top_k) * self.expert_parameters
        return self.parameters - (self.routed_layers + self.mtp_layers) * idle

    @property
    def routed_layers(self) -> int:
        return 0 if self.experts is None else self.experts.routed_layers(self.layers)

    @property
    def _routed_experts(self) -> Experts:
        if self.experts is None:
            raise ValueError(f"{self.name} has no experts")
        return self.experts

    def _mlp(self, ffn: int) -> int:
        return (3 if self.mlp == "swiglu" else 2) * self.hidden * ffn

    def _mlp_biases(self, ffn: int) -> int:
        return ((2 if self.mlp == "swiglu" else 1) * ffn + self.hidden) if self.linear_bias else 0

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
        routed = self.routed_layers
        return (
            (self.layers - routed) * self.layer_parameters
            + (routed * self.routed_layer_parameters if routed else 0)
            + self.mtp_parameters
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
