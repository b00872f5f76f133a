"""Stack profiles outside the catalog: in the catalog's API and in scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.scenarios import SMALL

from hwmodels import catalog
from hwmodels.catalog import CatalogError
from sim.scenario import ScenarioError, load, loads, machine, scenario_hash

PROFILE = """\
name: mine-2026
title: "Mine"
date: 2026-11-30
gpus: [mi300x]
inherits: {base}
tuned: true
sources: {{log: {{title: "rccl.txt"}}}}
scale_up_efficiency: {{value: "0.9", source: log, confidence: derived, note: "fitted"}}
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "stacks" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(PROFILE.format(base="primus-2026-mi300x"))
    return path


def test_a_file_is_the_catalog_stack_with_its_own_figures(profile: Path) -> None:
    mine, base = catalog.stack_from_file(profile), catalog.stack("primus-2026-mi300x")
    assert (mine.name, mine.inherits, mine.scale_up_efficiency) == ("mine-2026", "primus-2026-mi300x", 0.9)
    assert mine.gemm_efficiency == base.gemm_efficiency
    assert mine.figures["scale_up_efficiency"].source == "rccl.txt"
    assert catalog.stack_named(str(profile)) == mine
    assert catalog.stack_named("primus-2026-mi300x") == base


def test_a_file_may_inherit_from_a_file_beside_it(profile: Path) -> None:
    child = profile.with_name("child.yaml")
    child.write_text(PROFILE.format(base="mine.yaml").replace("mine-2026", "child").replace('"0.9"', '"0.8"'))
    assert catalog.stack_from_file(child).scale_up_efficiency == 0.8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PROFILE.format(base="primus-2026-mi300"), "inherits: unknown software stack 'primus-2026-mi300'"),
        (PROFILE.format(base="./mine.yaml"), "inherits: a circle of files"),
        (PROFILE.format(base="no/such.yaml"), "No such file or directory: the path of a stack profile"),
        (PROFILE.format(base="primus-2026-mi300x").replace("mine-2026", "primus-2026-mi325x"), "is a stack of the catalog"),
        (PROFILE.format(base="primus-2026-mi300x") + "surprise: 1\n", "surprise: unknown key"),
        ("- a\n", "a mapping of keys"),
        ("a: [", "not valid YAML"),
        ("\x00", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_profile(profile: Path, text: str, said: str) -> None:
    profile.write_text(text)
    with pytest.raises(CatalogError, match=r"mine\.yaml|such\.yaml") as error:
        catalog.stack_from_file(profile)
    assert said in str(error.value)


def test_binary_and_large_files_are_refused(profile: Path) -> None:
    profile.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(CatalogError, match=r"mine\.yaml"):
        catalog.stack_from_file(profile)
    profile.write_bytes(b"# " * 2**20)
    with pytest.raises(CatalogError, match="larger than 1 MiB"):
        catalog.stack_from_file(profile)
    with pytest.raises(CatalogError, match="the path of a stack profile"):
        catalog.stack_from_file(profile.parent)


def scenario_text(stack: str) -> str:
    return SMALL.replace("stack: primus-2026-mi300x", f"stack: {stack}")


def test_a_scenario_names_a_file_relative_to_itself(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = profile.parent.parent / "scenario.yaml"
    path.write_text(scenario_text("stacks/mine.yaml"))
    monkeypatch.chdir("/")
    scenario = load(path)
    assert machine.stack(scenario).name == "mine-2026"
    child = profile.parent / "child.yaml"
    child.write_text("extends: ../scenario.yaml\nname: child\n")
    assert machine.stack(load(child)).name == "mine-2026"


def test_an_override_names_a_file_relative_to_where_the_user_is(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(profile.parent)
    assert machine.stack(loads(SMALL, overrides=("cluster.stack=mine.yaml",))).name == "mine-2026"
    assert machine.stack(loads(SMALL, overrides=(f"cluster.stack={profile}",))).name == "mine-2026"


def test_the_hash_is_that_of_the_figures_not_of_the_path(profile: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text(profile.read_text())
    here, there = (loads(SMALL, overrides=(f"cluster.stack={path}",)) for path in (profile, copy))
    assert scenario_hash(here) == scenario_hash(there)
    copy.write_text(profile.read_text().replace('"0.9"', '"0.8"'))
    assert scenario_hash(here) != scenario_hash(there)


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ("no/such.yaml", "No such file or directory"),
        ("primus-2026-mi300", "unknown software stack 'primus-2026-mi300'"),
    ],
)
def test_trouble_is_located_where_the_stack_is_named(tmp_path: Path, stack: str, said: str) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(scenario_text(stack))
    with pytest.raises(ScenarioError) as error:
        load(path)
    (message,) = error.value.errors
    assert ":4:49: cluster.stack: " in message
    assert said in message


def test_a_profile_of_another_gpu_is_refused(profile: Path) -> None:
    profile.write_text(profile.read_text().replace("[mi300x]", "[mi325x]"))
    with pytest.raises(ScenarioError, match=r"'mine-2026' is for mi325x, the node has mi300x"):
        loads(SMALL, overrides=(f"cluster.stack={profile}",))


def test_strangers_may_not_reach_for_files(profile: Path, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="a text without a folder cannot name a file"):
        loads(scenario_text("stacks/mine.yaml"))
    with pytest.raises(ScenarioError, match="only a stack of the catalog may be named here"):
        loads(scenario_text("../mine.yaml"), folder=profile.parent, within=profile.parent)
