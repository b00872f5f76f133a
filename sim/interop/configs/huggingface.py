"""The model of a Hugging Face ``config.json``. Batch, plan and machine are not in it: the user gives them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import yaml

from sim.interop.configs.draft import Draft
from sim.interop.configs.huggingface_families import FAMILIES, Fields, known_layers
from sim.interop.configs.keys import check_settings, keys
from sim.interop.configs.literal import parse_literal
from sim.interop.configs.model_fields import put_model
from sim.interop.configs.request import Request
from sim.interop.configs.settings import Settings, settings_of
from sim.interop.configs.text_file import read_text
from sim.scenario.errors import Position, Problem, ScenarioError, shown
from sim.scenario.yaml_document import Block

_REFUSED = Path(__file__).with_name("huggingface_refused.yaml")
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_NEEDED = ("training.sequence_length", "training.global_batch")
_PLACES = {
    "layers": ("num_hidden_layers", "n_layer"), "hidden": ("hidden_size", "n_embd"), "vocab": ("vocab_size",),
    "ffn": ("intermediate_size", "n_inner"), "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",), "head_dim": ("head_dim",), "latent": ("kv_lora_rank",),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts"), "window": ("sliding_window",),
    "full_every": ("layer_types",), "mtp_layers": ("num_nextn_predict_layers",),
}  # fmt: skip


def read_huggingface(request: Request) -> Draft:
    """The draft of a scenario with this model. Raises ScenarioError for an unreadable file."""
    name = os.fspath(request.path)
    start = Position(name, 1, 1)
    tree = parse_literal(read_text(request.path), name)
    if not isinstance(tree, Block):
        raise ScenarioError([Problem(start, "", "a JSON object with model_type is due here")])
    draft = Draft(start, request.overrides)
    settings = _text_model(Settings(settings_of(tree, start), start, problems=draft.problems), tree, draft)
    if not request.own_model:
        _put(settings, draft, request)
    _put_training(settings, draft)
    return draft


def _text_model(outer: Settings, tree: Block, draft: Draft) -> Settings:
    """The language model of a model of several kinds of input."""
    inner = tree.entries.get("text_config")
    if inner is None or not isinstance(inner.value, Block):
        return outer
    draft.warn(
        "text_config: the language model alone: encoders of other inputs are left out", inner.key_position
    )
    given = {**{k: v for k, v in outer.given.items() if k in ("torch_dtype", "dtype", "tie_word_embeddings")}}
    given |= settings_of(inner.value, outer.start)
    return Settings(given, inner.key_position, problems=outer.problems)


def _put(s: Settings, draft: Draft, request: Request) -> None:
    kind = s.text("model_type")
    family = FAMILIES.get(kind or "")
    if kind is None:
        s.refuse("model_type", "is missing: is this the config.json of a model?")
        return
    if family is None:
        missing = _refused().get(kind)
        why = (
            f"not modelled yet: {missing}" if missing else f"is not known here; known: {', '.join(FAMILIES)}"
        )
        s.refuse("model_type", f"{shown(kind)}: {why}")
        return
    check_settings(s, keys("huggingface"), draft, request)
    fields: Fields = {}
    for trait in (known_layers, *family):
        fields |= trait(s)
    needed = ("layers", "hidden", "ffn", "heads", "vocab")
    missing_fields = [field for field in needed if fields.get(field) is None]
    for field in missing_fields:
        s.refuse(_PLACES[field][0], "is missing: the model is not described")
    if missing_fields or s.problems:
        return
    asked = draft.override("model.vocab")
    if asked is not None and asked.strip().isdecimal() and len(asked) < 12:
        fields["vocab"] = int(asked)
    places = {field: s.at(name) for field, names in _PLACES.items() for name in names if name in s.given}
    hint = s.text("_name_or_path") or request.path.resolve().parent.name
    source = f"config.json in {request.path.parent.name or '.'}"
    put_model(draft, fields, places, s.at("model_type"), (hint.rpartition("/")[2] or kind,), source)


@cache
def _refused() -> dict[str, str]:
    return dict(yaml.load(_REFUSED.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def _put_training(s: Settings, draft: Draft) -> None:
    name = "dtype" if "dtype" in s else "torch_dtype"
    dtype = (s.text(name) or "").rpartition(".")[2]
    if dtype in _DTYPES:
        draft.put("training.precision", _DTYPES[dtype], s.at(name))
        if draft.override("training.precision") is None:
            draft.warn(
                f"training.precision: {_DTYPES[dtype]}, the format of the released weights", s.at(name)
            )
    elif draft.override("training.precision") is None:
        draft.refuse("not in this file: give it with --set training.precision=bf16", "training.precision")
    for path in _NEEDED:
        if draft.override(path) is None:
            draft.refuse(f"a config.json says nothing of it: give it with --set {path}=N", path)
