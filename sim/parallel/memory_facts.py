"""What the memory model must know: facts of machine and software, and the request of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite

from sim.workload.routing import BALANCED, Routing

PRECISIONS = ("bf16", "fp16", "fp32", "fp8", "mxfp8", "mxfp4", "nvfp4")
LORA_TARGETS = ("qkv", "proj")

KEYS: Mapping[str, str] = {
    "fused_gradient_accumulation": "1 when weight gradients are added into the main gradient inside the GEMM: "
    "Transformer Engine then keeps one dummy 16-bit gradient per distinct weight shape for ever; else 0",
    "cross_entropy_bytes_per_logit": "bytes per local logit at the peak: 2 in place, 4 flash style, 6 Megatron "
    "unfused (fp32 softmax + 16-bit gradient), 10-14 plain PyTorch with an fp32 copy",
    "unfused_swiglu": "1 when SwiGLU is several kernels and keeps silu(gate) too, else 0",
    "vocab_padding_multiple": "the vocabulary is rounded up to this times tp (Megatron: 128; none: 1)",
    "gemm_workspace_bytes": "GEMM library workspace held by the framework (a number of streams times one workspace)",
    "library_handle_bytes": "library handles of the output layer's extra threads, last stage only",
    "reserved_ratio_low": "reserved over allocated, low end",
    "reserved_ratio_high": "reserved over allocated, high end",
    "context_bytes": "device context, kernels and driver, outside the allocator",
    "communicator_bytes_first": "first communicator of a rank, outside the allocator",
    "communicator_bytes_further": "each further communicator of a rank",
    "master_weight_bytes": "optimizer's master copy per 16-bit parameter: 4 (fp32) or 2 (16-bit remainder)",
    "optimizer_moment_bytes": "each of Adam's two moments, per parameter: 4 (fp32) or 2 (bf16)",
}
"""Every key that a stack profile's ``memory:`` mapping must have; bytes are plain bytes (not MiB)."""

OPTIONAL: Mapping[str, str] = {
    "dispatch_copies": "copies of the routed rows alive at the end of a routed layer's forward: 4 where each result "
    "stays referenced (PyTorch), fewer where a compiler frees a buffer after its last use",
    "pool_share": "part of HBM that the allocator may take: XLA reserves a pool of that size at its start",
    "deterministic_keys": "keys per block of a deterministic attention backward: every block keeps an fp32 gradient "
    "of all queries until they are added in order; 0: not known of this stack",
}
"""Keys that a mapping may leave out (defaults: ``MemoryFacts``)."""

_CHOICES: Mapping[str, tuple[float, ...]] = {
    "fused_gradient_accumulation": (0.0, 1.0),
    "unfused_swiglu": (0.0, 1.0),
    "master_weight_bytes": (2.0, 4.0),
    "optimizer_moment_bytes": (2.0, 4.0),
}


@dataclass(frozen=True)
class MemoryFacts:
    """Facts of one GPU and one software stack; ``KEYS`` says what each field means.

    ``hbm_bytes`` is what one rank can use of its GPU. Raises ``ValueError`` for values out of range.
    """

    hbm_bytes: float
    fused_gradient_accumulation: bool
    cross_entropy_bytes_per_logit: float
    unfused_swiglu: bool
    vocab_padding_multiple: int
    gemm_workspace_bytes: float
    library_handle_bytes: float
    reserved_ratio: tuple[float, float]
    context_bytes: float
    communicator_bytes_first: float
    communicator_bytes_further: float
    master_weight_bytes: float
    optimizer_moment_bytes: float
    dispatch_copies: float = 4.0
    pool_share: float = 1.0
    deterministic_keys: float = 0.0

    def __post_init__(self) -> None:
        if not self.hbm_bytes > 0.0:
            raise ValueError(f"hbm_bytes: {self.hbm_bytes!r} must be above zero")
        if self.vocab_padding_multiple < 1:
            raise ValueError(f"vocab_padding_multiple: {self.vocab_padding_multiple!r} must be 1 or more")
        if not 0.0 < self.pool_share <= 1.0:
            raise ValueError(f"pool_share: {self.pool_share!r} must be above 0 and at most 1")
        low, high = self.reserved_ratio
        if not 1.0 <= low <= high:
            raise ValueError(f"reserved_ratio: {low:g}..{high:g} must be 1 or more, the low end first")

    @classmethod
    def from_mapping(cls, hbm_bytes: float, mapping: Mapping[str, float]) -> MemoryFacts:
        """Facts from the ``memory:`` mapping of a stack profile (keys and meanings in ``KEYS``).

        Raises ``ValueError`` that lists every missing key, or names a key or value that is wrong.
        """
        _check_keys(mapping)
        for key, value in mapping.items():
            _check_value(key, value)
        return cls(
            hbm_bytes=float(hbm_bytes),
            fused_gradient_accumulation=bool(mapping["fused_gradient_accumulation"]),
            cross_entropy_bytes_per_logit=float(mapping["cross_entropy_bytes_per_logit"]),
            unfused_swiglu=bool(mapping["unfused_swiglu"]),
            vocab_padding_multiple=int(mapping["vocab_padding_multiple"]),
            gemm_workspace_bytes=float(mapping["gemm_workspace_bytes"]),
            library_handle_bytes=float(mapping["library_handle_bytes"]),
            reserved_ratio=(float(mapping["reserved_ratio_low"]), float(mapping["reserved_ratio_high"])),
            context_bytes=float(mapping["context_bytes"]),
            communicator_bytes_first=float(mapping["communicator_bytes_first"]),
            communicator_bytes_further=float(mapping["communicator_bytes_further"]),
            master_weight_bytes=float(mapping["master_weight_bytes"]),
            optimizer_moment_bytes=float(mapping["optimizer_moment_bytes"]),
            **{key: float(mapping[key]) for key in OPTIONAL if key in mapping},
        )

    @property
    def usable_bytes(self) -> float:
        """HBM that tensors can have."""
        return self.pool_share * self.hbm_bytes


@dataclass(frozen=True)
class MemoryRequest:
    """What the run asks for, beyond its architecture and layout.

    ``parameter_dtype`` is what a rank keeps: under FSDP the shards (fp32 shards need no master copy),
    while the gathered units are in the computing format. A ``precision`` of fp32 keeps fp32 whatever
    ``parameter_dtype`` says. Formats below 16 bits compute in fewer bits but are *assumed* to keep
    activations and weights in 16 bits: smaller saved GEMM inputs and cached low-precision weights
    partly cancel, and no measurement at hand separates them.

    ``cross_entropy`` overrides the stack: ``fused`` writes the gradient over the 16-bit logits,
    ``unfused`` keeps an fp32 softmax besides the gradient. ``lora_rank`` > 0 freezes the model; with an
    8-bit ``precision`` the frozen linear layers are then kept in 8 bits only (MLPerf LoRA recipes).
    ``extra_vocab_tokens`` are added before padding (Megatron's NullTokenizer adds one).

    Raises ``ValueError`` naming the known values.
    """

    sequence_length: int
    precision: str = "bf16"
    attention: str = "fused"  # "fused" | "unfused" (keeps the score matrix)
    parameter_dtype: str = "bf16"  # "bf16" | "fp32"
    gradient_dtype: str = "fp32"  # "fp32" | "bf16"
    dropout: float = 0.0  # any above zero keeps masks
    cross_entropy: str | None = None  # None (the stack's) | "fused" | "unfused"
    lora_rank: int = 0
    lora_targets: tuple[str, ...] = ()
    reshard: bool = True  # FSDP: drop gathered blocks after forward
    prefetch: int = 1  # FSDP: blocks gathered ahead
    context_exchange: str = (
        "all-to-all"  # cp > 1: "all-to-all" (a second attention output) | "all-gather" | "ring"
    )
    extra_vocab_tokens: int = 0
    routing: Routing = BALANCED
    bucket_parameters: float | None = None  # zero-2: parameters whose gradients are reduced together
    activation_store: str = "computed"  # | "fp8": format in which the activation function's input is kept
    optimizer_on_host: bool = False  # its states wait in host memory
    deterministic: bool = False  # attention backward adds its partial gradients in a fixed order

    def __post_init__(self) -> None:
        _known("precision", self.precision, PRECISIONS)
        _known("attention", self.attention, ("fused", "unfused"))
        _known("parameter_dtype", self.parameter_dtype, ("bf16", "fp32"))
        _known("gradient_dtype", self.gradient_dtype, ("fp32", "bf16"))
        _known("context_exchange", self.context_exchange, ("all-to-all", "all-gather", "ring"))
        _known("activation_store", self.activation_store, ("computed", "fp8"))
        if self.cross_entropy is not None:
            _known("cross_entropy", self.cross_entropy, ("fused", "unfused"))
        for target in self.lora_targets:
            _known("lora_targets", target, LORA_TARGETS)
        if self.sequence_length < 1:
            raise ValueError(f"sequence_length: {self.sequence_length!r} must be 1 or more")
        if self.lora_rank < 0 or self.prefetch < 0 or self.extra_vocab_tokens < 0:
            raise ValueError("lora_rank, prefetch and extra_vocab_tokens must not be negative")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: {self.dropout!r} must be in [0, 1)")
        if bool(self.lora_rank) != bool(self.lora_targets):
            raise ValueError("lora_rank and lora_targets belong together: give both or neither")

    @property
    def frozen(self) -> bool:
        """Only adapters are trained."""
        return self.lora_rank > 0

    @property
    def element_bytes(self) -> float:
        """Bytes of one activation and of one gathered parameter."""
        return 4.0 if self.precision == "fp32" else 2.0

    @property
    def parameter_bytes(self) -> float:
        """Bytes of one kept parameter."""
        return 4.0 if "fp32" in (self.precision, self.parameter_dtype) else 2.0

    @property
    def linear_bytes(self) -> float:
        """Bytes of one kept weight of a block's linear layers."""
        return 1.0 if self.frozen and self.precision in ("fp8", "mxfp8") else self.parameter_bytes

    @property
    def gradient_bytes(self) -> float:
        return 4.0 if "fp32" in (self.precision, self.gradient_dtype) else 2.0

    @property
    def stored_input_bytes(self) -> float:
        """Bytes of one kept input of the activation function."""
        return 1.0 if self.activation_store == "fp8" else self.element_bytes

    def optimizer_bytes(self, facts: MemoryFacts) -> float:
        """Adam per parameter: two moments, and a master copy of a 16-bit parameter (fp32 is its own)."""
        master = 0.0 if self.parameter_bytes == 4.0 else facts.master_weight_bytes
        return master + 2.0 * facts.optimizer_moment_bytes

    def logit_bytes(self, facts: MemoryFacts) -> float:
        """Bytes per local logit at the peak of the loss (logits, softmax and gradient together)."""
        if self.cross_entropy == "fused":
            return self.element_bytes
        if self.cross_entropy == "unfused":
            return 4.0 + self.element_bytes
        return facts.cross_entropy_bytes_per_logit


def _known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        nearest = get_close_matches(str(value), known, n=len(known), cutoff=0.3)
        ordered = [*nearest, *(other for other in known if other not in nearest)]
        raise ValueError(f"{name}: unknown value {value!r}; known: {', '.join(ordered)}")


def _check_keys(mapping: Mapping[str, float]) -> None:
    for key in mapping:
        if key not in KEYS and key not in OPTIONAL:
            nearest = get_close_matches(key, [*KEYS, *OPTIONAL], n=1, cutoff=0.0)
            raise ValueError(f"memory facts: unknown key {key!r}; nearest known: {nearest[0]!r}")
    missing = [key for key in KEYS if key not in mapping]
    if missing:
        raise ValueError("memory facts: missing " + "; ".join(f"{key!r} ({KEYS[key]})" for key in missing))


def _check_value(key: str, value: object) -> None:
    if not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
        meaning = KEYS[key] if key in KEYS else OPTIONAL[key]
        raise ValueError(f"memory facts: {key}: {value!r} must be a number of zero or more: {meaning}")
    choices = _CHOICES.get(key)
    if choices is not None and float(value) not in choices:
        raise ValueError(
            f"memory facts: {key}: {value!r} must be one of {', '.join(f'{c:g}' for c in choices)}"
        )
    if key == "vocab_padding_multiple" and int(value) != value:
        raise ValueError(f"memory facts: {key}: {value!r} must be a whole number")
