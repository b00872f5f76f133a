"""Recommenders written into a scenario: the same as the catalog's, changed ones, and what is refused."""

from __future__ import annotations

import pytest
from fakes.recommenders import DLRM

from sim.scenario import ScenarioError, loads, to_yaml
from sim.step import simulate
from sim.workload.catalog import recommender
from sim.workload.recommender import Recommender

OWN = """\
schema: 1
name: own
model:
  name: shop
  dim: 64
  tables: {item: {rows: 50000000, lookups: 20}, user: {rows: 100000000}, query: {rows: 2000000, lookups: 5}}
  dense_inputs: 40
  bottom: [256, 64]
  top: [512, 256, 1]
cluster: {node: h100-8x400g, nodes: 1, stack: hugectr-2024-h100}
training: {global_batch: 32768, precision: bf16, embeddings: {skew: 0.9}}
"""


def test_a_model_of_ones_own_runs() -> None:
    scenario = loads(OWN)
    assert isinstance(scenario.model, Recommender)
    assert scenario.model.interaction_width == 64 + 4 * 3 // 2
    result = simulate(scenario)
    assert result.model_title == "shop"
    assert result.worst_memory.parts_bytes["table_rows"] < 152e6 * 64 * 4


@pytest.mark.parametrize("name", ["dlrm-dcnv2", "dlrm-onehot", "dlrmv4-hstu", "hstu-ranking-1024"])
def test_a_catalog_model_survives_being_written_out(name: str) -> None:
    from sim.scenario.inline_recommender import InlineRecommender, recommender_fields

    model = recommender(name)
    assert InlineRecommender.model_validate(recommender_fields(model)).recommender() == model


def test_a_scenario_with_one_survives_yaml() -> None:
    scenario = loads(OWN)
    again = loads(to_yaml(scenario))
    assert again.model == scenario.model
    assert again.model_dump(mode="json") == scenario.model_dump(mode="json")


def test_a_base_gives_what_is_left_out() -> None:
    written = DLRM.replace("model: dlrm-dcnv2", "model: {base: dlrm-dcnv2, cross_layers: 6}")
    changed, plain = loads(written), loads(DLRM)
    assert isinstance(changed.model, Recommender)
    assert changed.model.name == "dlrm-dcnv2 (cross_layers changed)"
    assert changed.model.tables == recommender("dlrm-dcnv2").tables
    assert simulate(changed).step_time_s > simulate(plain).step_time_s


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("  dim: 64\n", "", "give its dim"),
        ("rows: 100000000", "rows: 0", "a whole number from 1 to"),
        ("bottom: [256, 64]", "bottom: [256, 32]", "dot needs vectors of one width"),
        ("  dense_inputs: 40\n", "", "bottom and dense_inputs belong together"),
        ("  top: [512, 256, 1]\n", "", "give the widths of the layers over the interaction"),
        ("  dim: 64\n", "  dim: 64\n  interaction: cross\n", "cross has cross_layers and cross_rank"),
        ("lookups: 5", "lookups: 5, sequence: true", "an encoder and tables with sequence: true"),
        ("lookups: 5", "looksup: 5", "unknown field"),
        ("  name: shop\n", "  base: dlrm\n", "unknown recommender 'dlrm'"),
        ("  name: shop\n", "  layers: 3\n", "unknown field"),
    ],
)
def test_what_makes_no_model_is_told(before: str, after: str, message: str) -> None:
    assert before in OWN
    with pytest.raises(ScenarioError, match=message):
        loads(OWN.replace(before, after))
