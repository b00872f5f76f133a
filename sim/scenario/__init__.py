"""The user's question: scenario files, their schema, and errors that say where and what would be right."""

from __future__ import annotations

from sim.scenario.errors import Position, Problem, ScenarioError
from sim.scenario.json_schema import json_schema
from sim.scenario.loader import load, load_node, loads
from sim.scenario.schema import Scenario
from sim.scenario.writer import scenario_hash, to_yaml

__all__ = [
    "Position",
    "Problem",
    "Scenario",
    "ScenarioError",
    "json_schema",
    "load",
    "load_node",
    "loads",
    "scenario_hash",
    "to_yaml",
]
