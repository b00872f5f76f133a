"""JSON schema of scenario files, for completion and checks in editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sim.scenario.aliases import ALIASES, Alias
from sim.scenario.inline_model import InlineModel
from sim.scenario.inline_recommender import InlineRecommender
from sim.scenario.schema import Scenario

SCHEMA_FILE = Path(__file__).with_name("scenario.schema.json")

_STACK_PATH = {"type": "string", "pattern": r"[/\\]|\.ya?ml$"}

_SECTIONS = {
    "cluster": "ClusterSpec",
    "training": "TrainingSpec",
    "parallelism": "ParallelismSpec",
    "model": "InlineModel",
}


def json_schema() -> dict[str, Any]:
    """Draft 2020-12 schema of a scenario file: known names, aliases of other tools, ``extends``.

    A file that extends another may leave out what it inherits; other files need the required fields.
    """
    schema = Scenario.model_json_schema(by_alias=True, mode="validation")
    definitions = schema["$defs"]
    inline = InlineModel.model_json_schema(by_alias=True)
    definitions |= inline.pop("$defs", {})
    definitions["InlineModel"] = inline
    recommender = InlineRecommender.model_json_schema(by_alias=True)
    definitions |= recommender.pop("$defs", {})
    definitions["InlineRecommender"] = recommender
    _take_names(schema, definitions)
    _take_short_recompute(definitions["RecomputeSpec"])
    _take_aliases(definitions)
    required = _take_required(schema, definitions)
    schema["properties"]["extends"] = {
        "type": "string",
        "description": "Scenario file to start from, relative to this one",
    }
    schema["if"] = {"not": {"required": ["extends"]}}
    schema["then"] = required
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "trainsim scenario", **schema}


def schema_text() -> str:
    """The text of ``scenario.schema.json``."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _take_names(schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Catalog names as an enumeration where a field takes one."""
    from hwmodels import catalog
    from sim.workload.catalog import model_names

    for properties in (schema["properties"], definitions["ClusterSpec"]["properties"]):
        for name, field in properties.items():
            kind = field.pop("names", None)
            if kind is None:
                continue
            known: dict[str, Any] = {"enum": list(model_names() if kind == "model" else catalog.names(kind))}
            for key in ("type", "anyOf", "minLength", "maxLength"):
                field.pop(key, None)
            other: list[dict[str, Any]] = []
            if kind == "model":
                other += [{"$ref": "#/$defs/InlineModel"}, {"$ref": "#/$defs/InlineRecommender"}]
            if kind == "stack":
                other.append(_STACK_PATH)
            if kind != "model" and "default" in field:
                other.append({"type": "null"})
            properties[name] = {**field, "anyOf": [known, *other]} if other else {**field, **known}


def _take_short_recompute(definition: dict[str, Any]) -> None:
    words = {"enum": definition["properties"]["kind"]["enum"]}
    layers = {
        "type": "object",
        "additionalProperties": False,
        "required": ["layers"],
        "properties": {"layers": definition["properties"]["layers"]},
    }
    modules = {
        "type": "object",
        "additionalProperties": False,
        "required": ["modules"],
        "properties": {
            "modules": definition["properties"]["modules"],
            "kind": {"const": "selective"},
        },
    }
    description = definition["description"]
    definition.clear()
    definition.update({"description": description, "anyOf": [words, layers, modules]})


def _take_aliases(definitions: dict[str, Any]) -> None:
    for alias in ALIASES:
        properties = definitions[_SECTIONS[alias.section]]["properties"]
        properties[alias.name] = _alias_schema(alias, properties)
    training = definitions["TrainingSpec"]["properties"]
    origin = "means recompute (Megatron-LM and Primus)"
    training["recompute_granularity"] = {"enum": ["full", "selective", None], "description": origin}
    training["recompute_method"] = {"enum": ["block", "uniform", None], "description": origin}
    training["recompute_num_layers"] = {"type": ["integer", "null"], "minimum": 0, "description": origin}
    modules = definitions["RecomputeSpec"]["anyOf"][2]["properties"]["modules"]
    training["recompute_modules"] = {**modules, "description": "means recompute (Megatron-LM)"}
    ids = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True}
    training["recompute_layer_ids"] = {
        "anyOf": [ids, {"type": "null"}],
        "description": "means recompute (Primus)",
    }
    training["activation_checkpoint"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"mode": {"enum": ["none", "selective", "full"]}},
        "description": "means recompute (TorchTitan)",
    }


def _alias_schema(alias: Alias, properties: dict[str, Any]) -> dict[str, Any]:
    description = f"means {alias.field} ({alias.origin})"
    if alias.values is not None:
        return {"enum": list(alias.values), "description": description}
    own = {key: value for key, value in properties[alias.field].items() if key not in {"title", "default"}}
    return {**own, "description": description}


def _take_required(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Takes ``required`` out of the sections and returns it as one condition on whole files."""
    sections: dict[str, Any] = {}
    for section in ("cluster", "training"):
        names = definitions[_SECTIONS[section]].pop("required")
        sections[section] = {"allOf": [_any_spelling(section, name) for name in names]}
    return {"required": schema.pop("required"), "properties": sections}


def _any_spelling(section: str, name: str) -> dict[str, Any]:
    spellings = [name, *(a.name for a in ALIASES if a.section == section and a.field == name)]
    return {"anyOf": [{"required": [spelling]} for spelling in spellings]}
