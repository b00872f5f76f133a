"""``import sim`` is free, and its lazy names are those that its type stub promises."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sim

HEAVY = ("simpy", "numpy", "pandas", "scipy", "plotly", "pydantic", "streamlit", "yaml")
ROOT = Path(sim.__file__).parent


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_stub_and_the_lazy_table_name_the_same_things() -> None:
    stub = ast.parse((ROOT / "__init__.pyi").read_text())
    promised = {
        (alias.name, node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert promised == set(sim._HOMES.items())


@pytest.mark.parametrize("name", sorted(sim._HOMES))
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(sim, name) is not None
    assert name in dir(sim)


def test_an_unknown_name_lists_the_public_ones() -> None:
    with pytest.raises(AttributeError, match="public: ImportedScenario, Scenario, ScenarioError"):
        _ = sim.simulated  # type: ignore[attr-defined]


def test_import_sim_imports_nothing_heavy() -> None:
    assert run_python(f"import sys, sim; print([m for m in {HEAVY} if m in sys.modules])") == "[]"
