"""Parameter counts of random architectures against a sum over their weight matrices."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sim.workload.catalog import ArchitectureError, architecture_from_mapping


@st.composite
def _mappings(draw: st.DrawFn) -> dict[str, Any]:
    kv_heads, groups, head_dim = (draw(st.integers(1, 8)) for _ in range(3))
    flags = ("tied_embeddings", "qkv_bias", "linear_bias", "qk_norm")
    return {
        "layers": draw(st.integers(1, 6)),
        "hidden": draw(st.integers(1, 64)),
        "ffn": draw(st.integers(1, 64)),
        "heads": kv_heads * groups,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "vocab": draw(st.integers(1, 100)),
        "mlp": draw(st.sampled_from(("swiglu", "gelu"))),
        "norm": draw(st.sampled_from(("rmsnorm", "layernorm"))),
        "position": draw(st.sampled_from(("rope", "alibi", "learned", "none"))),
        "max_positions": draw(st.integers(1, 50)),
        **{flag: draw(st.booleans()) for flag in flags},
    }


def _tensors(m: dict[str, Any]) -> list[tuple[int, ...]]:
    """Every weight tensor of the model, spelled out."""
    h, q, k, f = m["hidden"], m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"], m["ffn"]
    norm = [(h,), (h,)] if m["norm"] == "layernorm" else [(h,)]
    ups = 2 if m["mlp"] == "swiglu" else 1
    layer: list[tuple[int, ...]] = [*norm, *norm, (q, h), (k, h), (k, h), (h, q), (h, f), *[(f, h)] * ups]
    layer += [(q,), (k,), (k,)] if m["qkv_bias"] else []
    layer += [(h,), (h,), *[(f,)] * ups] if m["linear_bias"] else []
    layer += [(m["head_dim"],)] * 2 if m["qk_norm"] else []
    model: list[tuple[int, ...]] = [(m["vocab"], h), *norm, *layer * m["layers"]]
    model += [(m["max_positions"], h)] if m["position"] == "learned" else []
    model += [] if m["tied_embeddings"] else [(m["vocab"], h)]
    return model


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for width in shape:
        size *= width
    return size


@given(_mappings())
def test_counts_are_the_sum_of_all_tensors(mapping: dict[str, Any]) -> None:
    assert architecture_from_mapping(mapping).parameters == sum(map(_size, _tensors(mapping)))


_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers())
)
_keys = (
    st.sampled_from(("base", "layers", "hidden", "heads", "ffn", "vocab", "mlp", "name", "hidden_size"))
    | st.text()
)


@given(st.dictionaries(_keys, _scalars))
def test_no_mapping_breaks_the_reader(mapping: dict[str, Any]) -> None:
    try:
        model = architecture_from_mapping(mapping)
    except ArchitectureError as error:
        problems = error.problems
    else:
        problems = (("", str(model.parameters)),)
    assert problems
