"""Files to scenarios: SI values, defaults, inheritance, overrides, and errors that come all at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sim.scenario import Scenario, ScenarioError, load, loads, scenario_hash, to_yaml
from sim.scenario.yaml_document import locate, parse

TEXT = """\
schema: 1
name: two nodes
model: llama-3.1-8b
cluster:
  node: mi300x-8x400g
  nodes: 2
training:
  sequence_length: 8192
  global_batch: 64
  precision: bf16
parallelism: {tp: 2}
"""


def errors_of(text: str, *overrides: str) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as caught:
        loads(text, overrides)
    return caught.value.errors


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_degrees_follow_from_the_catalog() -> None:
    scenario = loads(TEXT)
    assert (scenario.gpus, scenario.dp, scenario.microbatches) == (16, 8, 8)
    assert loads(TEXT, ["cluster.nodes=1", "cluster.gpus=2"]).gpus == 2


def test_quantities_are_si_floats_after_loading() -> None:
    text = TEXT.replace(
        "  nodes: 2\n",
        "  nodes: 2\n  power_cap: 0.6 kW\n  nic_bandwidth: 800 Gbps\n"
        "  gpu: {hbm: 256 GB, hbm_bandwidth: 6 TB/s, compute_units: 256, peak_clock: 2400 MHz}\n"
        "  scale_up: {link_bandwidth: 128 GB/s, latency: 5 us}\n",
    )
    cluster = loads(text).cluster
    assert cluster.power_cap_W == 600.0
    assert cluster.nic_bandwidth_Bps == 1e11
    assert cluster.gpu is not None
    assert (cluster.gpu.hbm_bytes, cluster.gpu.hbm_bandwidth_Bps) == (256e9, 6e12)
    assert (cluster.gpu.compute_units, cluster.gpu.peak_clock_Hz) == (256, 2.4e9)
    assert cluster.scale_up is not None
    assert (cluster.scale_up.link_bandwidth_Bps, cluster.scale_up.latency_s) == (128e9, 5e-6)


def test_stated_defaults() -> None:
    scenario = loads(TEXT)
    assert scenario.parallelism.sequence_parallel is True
    assert loads(TEXT, ["parallelism.tp=1"]).parallelism.sequence_parallel is False
    assert scenario.parallelism.data_sharding == "zero-1"
    assert (scenario.training.recompute.kind, scenario.training.recompute.layers) == ("none", None)
    assert scenario.metrics.mfu_convention == "megatron"
    assert scenario.cluster.fabric.kind == "non-blocking"


@pytest.mark.parametrize(
    ("written", "kind", "layers"),
    [
        ("none", "none", None),
        ("selective", "selective", None),
        ("full", "full", None),
        ("{layers: 21}", "full", 21),
        ("{layers: [31, 0, 5]}", "full", (0, 5, 31)),
        ("{modules: [layernorm, mlp]}", "selective", None),
    ],
)
def test_recompute_in_its_forms(written: str, kind: str, layers: int | tuple[int, ...] | None) -> None:
    recompute = loads(TEXT, [f"training.recompute={written}"]).training.recompute
    assert (recompute.kind, recompute.layers) == (kind, layers)


def test_a_number_with_an_exponent_is_a_whole_number() -> None:
    assert loads(TEXT, ["training.global_batch=6.4e1"]).training.global_batch == 64


def test_an_inline_model_becomes_an_architecture() -> None:
    widths = "{name: tiny, layers: 4, hidden: 512, ffn: 2048, heads: 8, vocab: 32000}"
    model = loads(TEXT, [f"model={widths}"]).model
    assert not isinstance(model, str)
    assert (model.name, model.kv_heads, model.head_dim, model.mlp) == ("tiny", 8, 64, "swiglu")


def test_a_scenario_never_changes() -> None:
    scenario = loads(TEXT)
    with pytest.raises(ValidationError):
        scenario.training.global_batch = 1
    assert hash(scenario) == hash(loads(TEXT))


def test_every_error_of_a_file_comes_at_once_with_its_place() -> None:
    faulty = """\
model: llama-3.1-9b
cluster: {node: mi300x-8x401g, nodes: 0, power_cap: 600, nic: cx9, pools: []}
training:
  sequence_length: yes
  global_batch: 3.5
  precision: fp7
  recompute: partial
  micro_batch:
parallelism:
  tp: "8"
  cp: 0
  data_sharding: zero-3
  scheduel: 1f1b
  dp: 4
seq_len: 4
"""
    errors = errors_of(faulty)
    expected = [
        "scenario.yaml:1:8: model: unknown model 'llama-3.1-9b'; known: llama-3.1-8b, ",
        "scenario.yaml:2:17: cluster.node: unknown node 'mi300x-8x401g'; known: mi300x-8x400g",
        "scenario.yaml:2:39: cluster.nodes: 0: a whole number from 1 to 1,000,000",
        "scenario.yaml:2:53: cluster.power_cap: 600: a power needs a unit: ",
        "scenario.yaml:2:63: cluster.nic: unknown NIC 'cx9'; known: ",
        "scenario.yaml:2:68: cluster.pools: not modelled yet",
        "scenario.yaml:4:20: training.sequence_length: 'yes': a whole number from 1 to 16,777,216",
        "scenario.yaml:5:17: training.global_batch: 3.5: a whole number",
        "scenario.yaml:6:14: training.precision: 'fp7': one of bf16, fp16, fp32, fp8, mxfp8, mxfp4, nvfp4",
        "scenario.yaml:7:14: training.recompute: 'partial': none, selective, operator, full or a mapping",
        "scenario.yaml:8:15: training.micro_batch: null: a whole number from 1 to 1,000,000; remove the line",
        "scenario.yaml:10:7: parallelism.tp: '8': a whole number",
        "scenario.yaml:11:7: parallelism.cp: 0: a whole number from 1 to 65,536",
        "scenario.yaml:12:18: parallelism.data_sharding: 'zero-3' is not modelled yet: one of ddp, zero-1, zero-2, fsdp",
        "scenario.yaml:13:3: parallelism.scheduel: unknown field 'scheduel'; nearest: schedule",
        "scenario.yaml:14:3: parallelism.dp: is derived, ",
        "scenario.yaml:15:1: seq_len: unknown field here; seq_len belongs in training",
    ]
    assert len(errors) == len(expected), "\n".join(errors)
    for error, start in zip(errors, expected, strict=True):
        assert error.startswith(start)


def test_rules_speak_beside_errors_of_other_fields() -> None:
    errors = errors_of(TEXT.replace("64", "60").replace("name: two nodes", "name: 2"))
    assert any("name: 2: text is due here" in error for error in errors)
    assert any("training.global_batch: 60 must be a multiple of" in error for error in errors)


def test_a_missing_field_is_located_at_its_section_and_described() -> None:
    assert errors_of(TEXT.replace("  precision: bf16\n", "")) == (
        "scenario.yaml:7:1: training.precision: is missing: Number format of the linear layers' GEMMs",
    )


def test_structured_problems_carry_the_field_for_forms() -> None:
    with pytest.raises(ScenarioError) as caught:
        loads(TEXT, ["parallelism.tp=3"])
    assert {problem.path for problem in caught.value.problems} == {
        "parallelism.tp",
        "training.sequence_length",
    }


@pytest.mark.parametrize("word", ["/etc/model.json", "config.json", "a\\b"])
def test_a_path_to_a_model_is_refused_for_now(word: str) -> None:
    assert "not modelled yet" in errors_of(TEXT, f"model='{word}'")[0]


# Overrides


def test_overrides_apply_in_order_and_merge() -> None:
    scenario = loads(TEXT, ["parallelism.tp=4", "parallelism.tp=8", "parallelism.overlap={tp: true}"])
    assert (scenario.parallelism.tp, scenario.parallelism.overlap.tp, scenario.parallelism.overlap.dp) == (
        8,
        True,
        True,
    )


def test_an_override_takes_aliases_and_quantities() -> None:
    scenario = loads(TEXT, ["training.seq_length=4096", "cluster.power_cap=700 W"])
    assert (scenario.training.sequence_length, scenario.cluster.power_cap_W) == (4096, 700.0)


def test_null_takes_an_inherited_field_back_to_its_default() -> None:
    text = TEXT.replace("{tp: 2}", "{tp: 2, pp: 2, schedule: gpipe}")
    assert loads(text, ["parallelism.pp=1", "parallelism.schedule="]).parallelism.schedule == "1f1b"
    assert loads(text, ["parallelism.schedule=null"]).parallelism.schedule == "1f1b"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("parallelism.tp=x", "--set parallelism.tp=x: parallelism.tp: 'x': a whole number"),
        ("parallelism.tpp=2", "--set parallelism.tpp=2: parallelism.tpp: unknown field 'tpp'; nearest: tp"),
        ("parallelism.tp", "--set parallelism.tp: write field=value"),
        ("=4", "--set =4: write field=value"),
        ("a..b=4", "--set a..b=4: write field=value"),
        ("parallelism.tp=[", "--set parallelism.tp=[: not valid YAML"),
        ("extends=other.yaml", "--set extends=other.yaml: extends belongs in the file"),
        ("name.x=1", "--set name.x=1: name: a mapping: text is due here"),
        ("a.b.c.d.e.f.g.h.i=1", "no field lies that deep"),
        ("training.recompute={layers: [1.5]}", "training.recompute.layers: [1.5]: a whole number"),
        ("training.recompute={layers: [2, 2]}", "training.recompute.layers: names each layer once"),
        ("training.recompute={modules: [mlp, mlp]}", "training.recompute: modules names each part once"),
        (
            "training.recompute={kind: full, modules: [mlp]}",
            "training.recompute: modules belong to selective",
        ),
        (
            "training.recompute={modules: [shared_experts]}",
            "training.recompute.modules.0: 'shared_experts' is not modelled yet",
        ),
    ],
)
def test_a_faulty_override_is_located_at_itself(override: str, words: str) -> None:
    assert words in errors_of(TEXT, override)[0]


def test_faulty_overrides_and_a_faulty_file_are_told_together() -> None:
    errors = errors_of(TEXT.replace("bf16", "fp7"), "parallelism.tp=x", "nonsense")
    assert [error.split(": ")[0] for error in errors] == [
        "scenario.yaml:10:14",
        "--set nonsense",
        "--set parallelism.tp=x",
    ]


# Inheritance


def test_extends_merges_deeply_relative_to_the_extending_file(tmp_path: Path) -> None:
    write(tmp_path, "base/first.yaml", TEXT)
    write(tmp_path, "base/second.yaml", "extends: first.yaml\ntraining: {global_batch: 128}\n")
    top = write(tmp_path, "own/top.yaml", "extends: ../base/second.yaml\nparallelism: {tp: 4}\n")
    scenario = load(top)
    assert scenario.training.global_batch == 128
    assert scenario.training.sequence_length == 8192
    assert scenario.parallelism.tp == 4


def test_an_inherited_error_is_located_in_the_file_that_holds_it(tmp_path: Path) -> None:
    base = write(tmp_path, "base.yaml", TEXT.replace("8192", "-1"))
    top = write(tmp_path, "top.yaml", "extends: base.yaml\ntraining: {global_batch: 0}\n")
    with pytest.raises(ScenarioError) as caught:
        load(top)
    assert caught.value.errors == (
        f"{base}:8:20: training.sequence_length: -1: a whole number from 1 to 16,777,216",
        f"{top}:2:26: training.global_batch: 0: a whole number from 1 to 100,000,000",
    ) or caught.value.errors[::-1] == (
        f"{base}:8:20: training.sequence_length: -1: a whole number from 1 to 16,777,216",
        f"{top}:2:26: training.global_batch: 0: a whole number from 1 to 100,000,000",
    )


def test_loops_are_shown(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "extends: b.yaml")
    write(tmp_path, "b.yaml", "extends: c.yaml")
    write(tmp_path, "c.yaml", "extends: ./b.yaml")
    with pytest.raises(
        ScenarioError, match=r"c\.yaml:1:10: extends: .*a loop: b\.yaml -> c\.yaml -> b\.yaml"
    ):
        load(tmp_path / "a.yaml")


def test_long_chains_are_refused(tmp_path: Path) -> None:
    for i in range(17):
        write(tmp_path, f"{i}.yaml", f"extends: {i + 1}.yaml")
    write(tmp_path, "17.yaml", TEXT)
    with pytest.raises(ScenarioError, match="chain of more than 16 files"):
        load(tmp_path / "0.yaml")
    assert load(tmp_path / "2.yaml").gpus == 16


@pytest.mark.parametrize("value", ["missing.yaml", "''", "[a.yaml]", "3", "null", '"a\\0b"', "."])
def test_a_faulty_extends_is_located(tmp_path: Path, value: str) -> None:
    top = write(tmp_path, "top.yaml", f"name: x\nextends: {value}\n")
    with pytest.raises(ScenarioError) as caught:
        load(top)
    assert caught.value.errors[0].startswith(f"{top}:2:10: extends: ")


def test_a_chain_may_be_confined_to_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "secret.yaml", TEXT)
    shipped = write(tmp_path, "shipped/base.yaml", TEXT)
    folder = shipped.parent
    assert loads("extends: base.yaml", folder=folder, within=folder).gpus == 16
    with pytest.raises(ScenarioError, match="only a shipped scenario"):
        loads("extends: ../secret.yaml", folder=folder, within=folder)
    write(tmp_path, "shipped/leak.yaml", "extends: ../secret.yaml")
    with pytest.raises(ScenarioError, match="only a shipped scenario"):
        loads("extends: leak.yaml", folder=folder, within=folder)
    with pytest.raises(ScenarioError, match="without a folder"):
        loads("extends: base.yaml")


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_is_none_is_an_error_too(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / name)
    assert caught.value.errors[0].startswith(f"{tmp_path / name}:1:1: ")


# Fingerprint and writing


def test_the_fingerprint_is_that_of_the_question() -> None:
    one = scenario_hash(loads(TEXT))
    assert one == scenario_hash(loads(TEXT + "seed: 0\nmetrics: {mfu_convention: megatron}\n"))
    assert one != scenario_hash(loads(TEXT, ["training.global_batch=128"]))
    assert len(one) == 12


def test_written_defaults_stay_unwritten() -> None:
    written = to_yaml(loads(TEXT))
    assert "schedule" not in written
    assert loads(written) == loads(TEXT)


def test_quantities_are_written_as_exactly_what_they_are() -> None:
    text = TEXT.replace(
        "  nodes: 2\n", "  nodes: 2\n  power_cap: 612.3456789 W\n  nic_bandwidth: 333333333 B/s\n"
    )
    again = loads(to_yaml(loads(text)))
    assert again.cluster.power_cap_W == 612.3456789
    assert again.cluster.nic_bandwidth_Bps == 333333333.0


def test_positions_survive_loading_from_a_larger_document() -> None:
    from sim.scenario import load_node

    root = parse("runs:\n  - scenario:\n      model: 7\n", "runs.yaml")
    node = locate(root, ("runs", 0, "scenario"))[1]
    assert node is not None
    with pytest.raises(ScenarioError) as caught:
        load_node(node, source="runs.yaml")
    assert "runs.yaml:3:14: model: 7: text is due here; put it in quotes" in caught.value.errors


def test_a_scenario_can_be_built_from_values() -> None:
    scenario = Scenario.model_validate(
        {
            "model": "llama-3.1-8b",
            "cluster": {"node": "mi300x-8x400g", "nodes": 1, "power_cap": 600.0},
            "training": {"sequence_length": 4096, "global_batch": 8, "precision": "bf16"},
        }
    )
    assert scenario.cluster.power_cap_W == 600.0
    assert loads(to_yaml(scenario)) == scenario
