"""Families of models: what each makes of a scenario, behind one protocol.

A family reads its own part of the scenario and answers with a program and a memory estimate; everything after
that is common (``sim/step.py``).
"""

from __future__ import annotations

from hwmodels.cluster import Cluster
from sim.families.family import Family, Model
from sim.families.recommender import Recommender
from sim.families.transformer import Transformer
from sim.scenario import Scenario, machine

__all__ = ["Family", "Model", "Recommender", "Transformer", "family_of"]


def family_of(scenario: Scenario, cluster: Cluster) -> Family:
    """The scenario as its model's family sees it."""
    model = machine.recommender(scenario)
    return Transformer(scenario, cluster) if model is None else Recommender(scenario, cluster, model)
