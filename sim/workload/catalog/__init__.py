"""Published model architectures by name: ``architecture("llama-3.1-70b")``.

One YAML file per family; parameter counts are derived, never tabulated, and tested against the
published ones.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sim.workload.catalog.errors import UnknownName, nearest_first
from sim.workload.catalog.mapping import ArchitectureError, architecture_from_mapping
from sim.workload.catalog.recommender_files import recommender, recommender_names

if TYPE_CHECKING:
    from sim.workload.architecture import Architecture

__all__ = [
    "ArchitectureError",
    "UnknownName",
    "architecture",
    "architecture_from_mapping",
    "architecture_names",
    "model_names",
    "recommender",
    "recommender_names",
    "rows",
]

_ROOT = Path(__file__).resolve().parent


@cache
def architecture(name: str) -> Architecture:
    """The model ``name``. Raises ``UnknownName``, which lists the known ones nearest first."""
    if name not in _models():
        raise UnknownName("model", name, nearest_first(name, architecture_names()))
    return architecture_from_mapping(_models()[name])


def model_names() -> tuple[str, ...]:
    """All known models of all families in alphabetical order."""
    return tuple(sorted((*architecture_names(), *recommender_names())))


@cache
def architecture_names() -> tuple[str, ...]:
    """All known models in alphabetical order."""
    return tuple(sorted(_models()))


def rows(name: str) -> tuple[tuple[str, str], ...]:
    """One model as (what, value) for display, with the derived parameter count."""
    model = architecture(name)
    shown = {
        "title": model.title,
        "layers": model.layers,
        "hidden": model.hidden,
        "ffn": f"{model.ffn} ({model.mlp})",
        "heads": f"{model.heads} of {model.head_dim}, {model.kv_heads} key/value",
        "vocab": f"{model.vocab} ({'tied' if model.tied_embeddings else 'untied'} embeddings)",
        "norm": model.norm + (", also on queries and keys" if model.qk_norm else ""),
        "position": model.position,
        "biases": "all" if model.linear_bias else ("qkv" if model.qkv_bias else "none"),
        "attention": "causal" if model.causal else "bidirectional",
        "parameters": f"{model.parameters:,} (derived)",
        "source": model.source,
    }
    shown |= _special(model)
    if model.published_parameters is not None:
        shown["published parameters"] = f"{model.published_parameters:,.0f}"
    return tuple((what, str(value)) for what, value in shown.items())


def _special(model: Architecture) -> dict[str, str]:
    """What only some models have, in words."""
    shown = {}
    if (experts := model.experts) is not None:
        words = [f"{experts.top_k} of {experts.count}, each {experts.ffn} wide"]
        if experts.shared_ffn:
            words.append(f"{experts.shared_ffn} shared")
        if experts.groups > 1:
            words.append(f"within {experts.group_limit} of {experts.groups} groups")
        words.append(f"in {model.routed_layers} layers")
        shown["experts"] = ", ".join(words)
        shown["active parameters"] = f"{model.active_parameters:,} (derived)"
    if (latent := model.latent) is not None:
        shown["latents"] = f"queries {latent.query_rank or 'none'}, keys and values {latent.kv_rank}"
        shown["latents"] += f"; heads of {latent.plain_dim} + {latent.rope_dim}, values {latent.value_dim}"
    if model.window:
        full = f", all in every {model.full_every}. layer" if model.full_every else ""
        shown["window"] = f"{model.window} tokens{full}"
    if model.mtp_layers:
        shown["further tokens"] = str(model.mtp_layers)
    return shown


@cache
def _models() -> dict[str, dict[str, Any]]:
    """Every model of every family file: the family's defaults under its own fields."""
    models: dict[str, dict[str, Any]] = {}
    for path in sorted(_ROOT.glob("*.yaml")):
        family = yaml.load(path.read_text("utf-8"), Loader=yaml.CSafeLoader)
        unknown = set(family) - {"family", "models"}
        twice = set(family["models"]) & set(models)
        if unknown or twice:
            raise ValueError(
                f"{path.name}: unknown keys {sorted(unknown)}, models known already {sorted(twice)}"
            )
        for name, fields in family["models"].items():
            models[name] = {**family["family"], **fields, "name": name}
    return models
