"""An architecture from a mapping of fields, as written in a scenario or in a family file.

``{base: llama-3-70b, layers: 12}`` takes the rest from a known model. Without ``base``, ``layers``,
``hidden``, ``ffn``, ``heads`` and ``vocab`` are required and the rest is a Llama unless said otherwise
(``DEFAULTS``). Hugging Face's names of the fields are understood too.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from sim.workload.architecture import Architecture
from sim.workload.catalog.errors import UnknownName, nearest_first
from sim.workload.catalog.nested import nested
from sim.workload.experts import Experts
from sim.workload.latent_attention import LatentAttention

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIASES = {
    "num_hidden_layers": "layers",
    "num_layers": "layers",
    "hidden_size": "hidden",
    "intermediate_size": "ffn",
    "ffn_hidden_size": "ffn",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "num_query_groups": "kv_heads",
    "vocab_size": "vocab",
    "tie_word_embeddings": "tied_embeddings",
    "max_position_embeddings": "max_positions",
    "sliding_window": "window",
    "num_nextn_predict_layers": "mtp_layers",
}
DEFAULTS: dict[str, Any] = {
    "mlp": "swiglu",
    "norm": "rmsnorm",
    "position": "rope",
    "max_positions": 0,
    "tied_embeddings": False,
    "qkv_bias": False,
    "linear_bias": False,
    "causal": True,
    "qk_norm": False,
    "experts": None,
    "latent": None,
    "window": 0,
    "full_every": 0,
    "sinks": False,
    "mtp_layers": 0,
    "published_parameters": None,
    "source": "written in the scenario",
}
REQUIRED = ("layers", "hidden", "ffn", "heads", "vocab")
CHOICES = {
    "mlp": ("swiglu", "gelu"),
    "norm": ("rmsnorm", "layernorm"),
    "position": ("rope", "alibi", "learned", "none"),
}
MOST = {
    "layers": 10_000,
    "hidden": 1_000_000,
    "ffn": 4_000_000,
    "heads": 10_000,
    "kv_heads": 10_000,
    "head_dim": 16_384,
    "vocab": 10_000_000,
    "max_positions": 100_000_000,
    "window": 100_000_000,
    "full_every": 10_000,
    "mtp_layers": 16,
}
"""Larger values are taken for typing errors."""

_TEXTS = ("name", "title", "source")
_FLAGS = ("tied_embeddings", "qkv_bias", "linear_bias", "causal", "qk_norm", "sinks")
_NESTED: dict[str, type[Experts | LatentAttention]] = {"experts": Experts, "latent": LatentAttention}
_MAY_BE_ZERO = ("max_positions", "window", "full_every", "mtp_layers")
_FIELDS = tuple(field.name for field in fields(Architecture))


class ArchitectureError(ValueError):
    """All ``problems`` of a mapping as (field, what is wrong and what would be right)."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        self.problems = problems
        super().__init__(
            "; ".join(f"{field}: {problem}" if field else problem for field, problem in problems)
        )


def architecture_from_mapping(mapping: Mapping[str, Any]) -> Architecture:
    """The architecture that ``mapping`` describes. Raises ``ArchitectureError`` with every problem."""
    given, problems = _renamed(mapping)
    base = _base(given, problems)
    problems += [(field, problem) for field, value in given.items() if (problem := _problem(field, value))]
    for field, kind in _NESTED.items():
        if isinstance(given.get(field), dict):
            given[field] = nested(field, kind, given[field], getattr(base, field, None), problems)
    if "base" not in mapping:
        missing = [field for field in REQUIRED if field not in given]
        problems += [(field, "missing; needed unless `base` names a known model") for field in missing]
    if problems:
        raise ArchitectureError(tuple(problems))
    model = _derived(base, given) if base else _fresh(given)
    inconsistencies = _inconsistencies(model)
    if inconsistencies:
        raise ArchitectureError(inconsistencies)
    return model


def _renamed(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The fields under our names; unknown and doubled ones are problems."""
    given: dict[str, Any] = {}
    problems = []
    for written, value in mapping.items():
        field = ALIASES.get(str(written), str(written))
        if field in given:
            problems.append((str(written), f"given twice, under two names of {field}"))
        elif field not in _FIELDS and field != "base":
            nearest = ", ".join(nearest_first(field, _FIELDS)[:3])
            problems.append((str(written), f"unknown field; known are {nearest}, …"))
        else:
            given[field] = value
    return given, problems


def _base(given: dict[str, Any], problems: list[tuple[str, str]]) -> Architecture | None:
    """Takes ``base`` out of ``given`` and looks it up."""
    if "base" not in given:
        return None
    name = given.pop("base")
    if not isinstance(name, str):
        problems.append(("base", f"{name!r} is not the name of a model"))
        return None
    from sim.workload.catalog import architecture  # the table of models is itself made of mappings

    try:
        return architecture(name)
    except UnknownName as error:
        problems.append(("base", str(error)))
        return None


def _problem(field: str, value: object) -> str:
    """What is wrong with one value, or nothing."""
    if field in MOST:
        return _count_problem(field, value)
    if field in CHOICES:
        return "" if value in CHOICES[field] else f"{value!r} is none of {', '.join(CHOICES[field])}"
    if field in _FLAGS:
        return "" if isinstance(value, bool) else f"{value!r} is neither true nor false"
    if field in _NESTED:
        fits = value is None or isinstance(value, dict | _NESTED[field])
        return "" if fits else f"{value!r} is neither a mapping nor null"
    if field in _TEXTS:
        return "" if isinstance(value, str) and value.strip() else f"{value!r} is not a text"
    number = isinstance(value, int | float) and not isinstance(value, bool)  # published_parameters
    return "" if value is None or (number and value > 0) else f"{value!r} is not a number of parameters"  # type: ignore[operator]


def _count_problem(field: str, value: object) -> str:
    least = 0 if field in _MAY_BE_ZERO else 1
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{value!r} is not a whole number"
    if not least <= value <= MOST[field]:
        return f"{value} is not between {least} and {MOST[field]}"
    return ""


def _fresh(given: dict[str, Any]) -> Architecture:
    values = {"name": "inline", **DEFAULTS, **given}
    values.setdefault("title", values["name"])
    values.setdefault("kv_heads", values["heads"])
    latent = values["latent"]
    if latent is not None:
        values.setdefault("head_dim", latent.key_dim)
    values.setdefault("head_dim", values["hidden"] // values["heads"])
    if "head_dim" not in given and latent is None and values["hidden"] % values["heads"]:
        problem = f"{values['hidden']} is no multiple of {values['heads']} heads; give head_dim"
        raise ArchitectureError((("hidden", problem),))
    return Architecture(**values)


def _derived(base: Architecture, given: dict[str, Any]) -> Architecture:
    """``base`` with some fields replaced; the published count holds for the original only."""
    shape = {field: value for field, value in given.items() if getattr(base, field) != value}
    if not set(shape) - set(_TEXTS):
        return replace(base, **shape)
    words = ", ".join(_in_words(base, field, value) for field, value in shape.items() if field not in _TEXTS)
    own = {"name": f"{base.name} ({words})", "title": f"{base.title}, {words}", "published_parameters": None}
    return replace(base, **{**own, **shape})


def _in_words(base: Architecture, field: str, value: Any) -> str:
    """A changed field; of a part of the model those of its own fields that change."""
    before = getattr(base, field)
    if field not in _NESTED:
        return f"{field} {value}"
    if value is None:
        return f"no {field}"
    if before is None:
        return field
    own = [inner.name for inner in fields(value) if getattr(value, inner.name) != getattr(before, inner.name)]
    return f"{field} " + ", ".join(f"{name} {getattr(value, name)}" for name in own)


def _inconsistencies(model: Architecture) -> tuple[tuple[str, str], ...]:
    problems = _expert_inconsistencies(model)
    if model.latent is not None and model.latent.key_dim != model.head_dim:
        problems.append(
            ("head_dim", f"{model.head_dim} is not plain_dim + rope_dim ({model.latent.key_dim})")
        )
    if model.full_every and not model.window:
        problems.append(("full_every", "has no meaning without a window"))
    if model.heads % model.kv_heads:
        problems.append(
            ("kv_heads", f"{model.heads} heads are no multiple of {model.kv_heads} key/value heads")
        )
    if model.position == "learned" and model.max_positions < 1:
        problems.append(("max_positions", "a learned position table needs its number of rows"))
    return tuple(problems)


def _expert_inconsistencies(model: Architecture) -> list[tuple[str, str]]:
    experts, problems = model.experts, []
    if experts is None:
        return []
    if experts.top_k > experts.count:
        problems.append(("experts", f"top_k {experts.top_k} is above the {experts.count} experts"))
    if experts.count % experts.groups or experts.group_limit > experts.groups:
        text = f"{experts.count} experts, {experts.groups} groups, of which {experts.group_limit}: groups are equal"
        problems.append(("experts", text))
    if not experts.routed_layers(model.layers):
        problems.append(("experts", f"none of the {model.layers} layers is routed"))
    return problems
