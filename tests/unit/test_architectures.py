"""Model architectures: derived parameter counts against published ones, and inline mappings."""

from __future__ import annotations

import re

import pytest

from sim.workload.catalog import (
    ArchitectureError,
    UnknownName,
    architecture,
    architecture_from_mapping,
    architecture_names,
    rows,
)

_PUBLISHED = [name for name in architecture_names() if architecture(name).published_parameters]
_NAMED_ONLY = [name for name in architecture_names() if not architecture(name).published_parameters]


@pytest.mark.parametrize("name", _PUBLISHED)
def test_derived_counts_match_published_ones(name: str) -> None:
    model = architecture(name)
    assert model.parameters == pytest.approx(model.published_parameters, rel=0.01)
    assert model.source


@pytest.mark.parametrize("name", _NAMED_ONLY)
def test_sizes_that_are_only_names_are_near(name: str) -> None:
    size = re.search(r"(\d+(?:\.\d+)?)b\b", name)
    assert size is not None
    assert architecture(name).parameters == pytest.approx(float(size.group(1)) * 1e9, rel=0.06)


def test_models_of_the_ledger_are_known() -> None:
    needed = (
        "llama-2-7b llama-2-13b llama-2-70b llama-3-8b llama-3.1-8b llama-3.1-70b llama-3.1-405b llama-3.2-1b "
        "llama-3.2-3b gpt-175b-lumi gpt-33b-lumi gpt-65b-lumi gpt-7b-lumi gptneox-6.7b poro-34b qwen2.5-7b "
        "qwen3-0.6b qwen3-8b bert-large mpt-125m mpt-70b gpt-1.7b-megatron gpt-462b-megatron"
    )
    assert set(needed.split()) <= set(architecture_names())


# Exact counts: those of the released weights (Llama, Qwen) and NumParams of llm-foundry's tables (MPT).
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-405b", 405_853_388_800),
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-8b", 8_190_735_360),
        ("mpt-125m", 125_311_488),
        ("mpt-30b", 29_975_214_080),
        ("mpt-70b", 64_862_437_376),
    ],
)
def test_exact_counts(name: str, parameters: int) -> None:
    assert architecture(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "sequence_length", "parameters"),
    [
        ("mpt-125m", 512, 124_131_840),
        ("mpt-125m", 65_536, 174_070_272),
        ("mpt-350m", 1024, 354_936_832),
        ("mpt-760m", 8192, 769_907_712),
        ("mpt-1b", 16_384, 1_345_310_720),
        ("mpt-3b", 4096, 2_657_080_320),
        ("mpt-7b", 32_768, 6_784_688_128),
        ("mpt-13b", 8192, 12_885_411_840),
        ("mpt-30b", 512, 29_964_204_032),
    ],
)
def test_mpt_has_one_position_per_token(name: str, sequence_length: int, parameters: int) -> None:
    assert architecture(name).with_positions(sequence_length).parameters == parameters


def test_positions_only_where_there_is_a_table() -> None:
    mpt = architecture("mpt-1b")
    assert mpt.with_positions(2048) is mpt
    assert mpt.with_positions(4096).published_parameters is None
    with pytest.raises(ValueError, match="no learned position table but rope"):
        architecture("llama-3-8b").with_positions(8192)
    with pytest.raises(ValueError, match="at least one row"):
        mpt.with_positions(0)


def test_query_and_key_norms_are_counted() -> None:
    model = architecture("qwen3-0.6b")
    without = architecture_from_mapping({"base": "qwen3-0.6b", "qk_norm": False})
    assert model.parameters - without.parameters == 28 * 2 * 128


@pytest.mark.parametrize(
    ("asked", "first"),
    [("llama3-8b", "llama-3-8b"), ("gpt-175b", "gpt-175b-lumi"), ("LLAMA-2-7B", "llama-2-7b")],
)
def test_unknown_models_list_the_nearest_first(asked: str, first: str) -> None:
    with pytest.raises(UnknownName) as caught:
        architecture(asked)
    error = caught.value
    assert (error.kind, error.name) == ("model", asked)
    assert first in error.nearest[:3]
    assert set(error.nearest) == set(architecture_names())
    assert len(str(error)) < 250


def test_a_very_long_name_makes_a_short_message() -> None:
    with pytest.raises(UnknownName) as caught:
        architecture("x" * 100_000)
    assert len(str(caught.value)) < 250


def test_inline_llama_like_model() -> None:
    model = architecture_from_mapping(
        {"layers": 32, "hidden": 4096, "ffn": 14336, "heads": 32, "kv_heads": 8, "vocab": 128256}
    )
    assert model.parameters == architecture("llama-3-8b").parameters
    assert (model.name, model.head_dim, model.published_parameters) == ("inline", 128, None)


def test_hugging_face_names_are_understood() -> None:
    config = {
        "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True,
        "max_position_embeddings": 131072,
    }  # fmt: skip
    assert architecture_from_mapping(config).parameters == architecture("llama-3.2-1b").parameters


def test_a_cut_model_is_based_on_a_known_one() -> None:
    whole = architecture("llama-3-70b")
    cut = architecture_from_mapping({"base": "llama-3-70b", "layers": 12})
    assert whole.parameters - cut.parameters == (80 - 12) * whole.layer_parameters
    assert cut.name == "llama-3-70b (layers 12)"
    assert cut.published_parameters is None
    assert architecture_from_mapping({"base": "llama-3-70b"}) == whole
    assert architecture_from_mapping({"base": "llama-3-70b", "layers": 12, "name": "proxy"}).name == "proxy"


_SMALL = {"layers": 2, "hidden": 64, "ffn": 256, "heads": 4, "vocab": 1000}


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"layers": True}, "layers", "True is not a whole number"),
        ({"layers": "two"}, "layers", "'two' is not a whole number"),
        ({"layers": 0}, "layers", "0 is not between 1 and"),
        ({"layers": -1}, "layers", "-1 is not between 1 and"),
        ({"layers": 10**9}, "layers", "is not between 1 and"),
        ({"hidden": 1.5}, "hidden", "1.5 is not a whole number"),
        ({"hidden": 66}, "hidden", "66 is no multiple of 4 heads; give head_dim"),
        ({"kv_heads": 3}, "kv_heads", "4 heads are no multiple of 3"),
        ({"mlp": "relu"}, "mlp", "'relu' is none of swiglu, gelu"),
        ({"mlp": ["gelu"]}, "mlp", "is none of swiglu, gelu"),
        ({"causal": "yes"}, "causal", "neither true nor false"),
        ({"position": "learned"}, "max_positions", "needs its number of rows"),
        ({"name": 7}, "name", "7 is not a text"),
        ({"layer": 2}, "layer", "unknown field; known are layers"),
        ({"hidden_size": 64}, "hidden_size", "given twice"),
        ({"base": "lama-3-8b"}, "base", "unknown model 'lama-3-8b'; known: llama-3-8b"),
        ({"base": 8}, "base", "8 is not the name of a model"),
        ({"published_parameters": -1}, "published_parameters", "not a number of parameters"),
    ],
)
def test_faulty_mappings_say_what_is_right(changes: dict[str, object], field: str, message: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        architecture_from_mapping(_SMALL | changes)
    (problem,) = caught.value.problems
    assert problem[0] == field
    assert message in problem[1]


def test_all_problems_come_at_once() -> None:
    with pytest.raises(ArchitectureError) as caught:
        architecture_from_mapping({"layers": 0, "colour": "red"})
    assert {field for field, _ in caught.value.problems} == {
        "layers",
        "colour",
        "hidden",
        "ffn",
        "heads",
        "vocab",
    }


def test_rows_show_the_derived_count() -> None:
    shown = dict(rows("llama-3-8b"))
    assert shown["parameters"] == "8,030,261,248 (derived)"
    assert shown["heads"] == "32 of 128, 8 key/value"
