"""The JSON schema that editors complete from, and the descriptions behind it and the docs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel

from hwmodels import catalog
from sim.scenario import json_schema
from sim.scenario.aliases import ALIASES, RECOMPUTE_NAMES
from sim.scenario.json_schema import SCHEMA_FILE, schema_text
from sim.scenario.schema import ClusterSpec, ParallelismSpec, Scenario, TrainingSpec
from sim.workload.catalog import model_names

SECTIONS = {
    "cluster": "ClusterSpec",
    "training": "TrainingSpec",
    "parallelism": "ParallelismSpec",
    "model": "InlineModel",
}


def test_the_shipped_file_is_current() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run: python -m sim.scenario"


@pytest.mark.parametrize("kind", ["node", "stack", "nic"])
def test_names_are_those_of_the_catalog(kind: str) -> None:
    field = json_schema()["$defs"]["ClusterSpec"]["properties"][kind]
    listed = field["enum"] if "enum" in field else field["anyOf"][0]["enum"]
    assert tuple(listed) == tuple(catalog.names(kind))


@pytest.mark.parametrize(
    ("text", "path"),
    [("mine.yaml", True), ("../stacks/mine.yml", True), ("stacks\\mine", True), ("primus-2026", False)],
)
def test_a_stack_may_be_a_path(text: str, path: bool) -> None:
    _, other, none = json_schema()["$defs"]["ClusterSpec"]["properties"]["stack"]["anyOf"]
    assert (re.search(other["pattern"], text) is not None) == path
    assert none == {"type": "null"}


def test_models_are_names_or_mappings() -> None:
    names, inline, recommender = json_schema()["properties"]["model"]["anyOf"]
    assert tuple(names["enum"]) == model_names()
    assert inline == {"$ref": "#/$defs/InlineModel"}
    assert recommender == {"$ref": "#/$defs/InlineRecommender"}


def test_aliases_are_offered_where_they_belong() -> None:
    definitions = json_schema()["$defs"]
    for alias in ALIASES:
        assert alias.name in definitions[SECTIONS[alias.section]]["properties"]
    assert set(RECOMPUTE_NAMES) <= set(definitions["TrainingSpec"]["properties"])


def test_required_fields_may_be_spelt_as_an_alias_or_inherited() -> None:
    schema = json_schema()
    assert "required" not in schema
    assert schema["if"] == {"not": {"required": ["extends"]}}
    assert schema["then"]["required"] == ["model", "cluster", "training"]
    spellings = [rule["anyOf"] for rule in schema["then"]["properties"]["training"]["allOf"]]
    assert [{"required": [name]} for name in ("global_batch", "global_batch_size")] in spellings


def test_every_reference_has_a_target() -> None:
    schema = json_schema()

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if "$ref" in value else []
            return own + [found for inner in value.values() for found in references(inner)]
        return [found for inner in value for found in references(inner)] if isinstance(value, list) else []

    found = references(schema)
    assert found
    assert all(reference.removeprefix("#/$defs/") in schema["$defs"] for reference in found)


@pytest.mark.parametrize("model", [Scenario, ClusterSpec, TrainingSpec, ParallelismSpec])
def test_every_field_is_described(model: type[BaseModel]) -> None:
    assert all(info.description for info in model.model_fields.values())


def test_attributes_with_a_unit_say_so() -> None:
    for name, info in ClusterSpec.model_fields.items():
        if info.alias:
            assert isinstance(info.json_schema_extra, dict), name
            assert info.json_schema_extra["unit"]
