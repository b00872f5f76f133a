"""Configurations of other tools become the scenarios that they describe, or are refused at their place."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.configs import BATCH, CONFIGS, FILES, NODE, ROOT, imported

import sim
from sim.interop.configs.huggingface_families import FAMILIES
from sim.interop.configs.keys import keys
from sim.scenario import ScenarioError, loads
from sim.scenario.machine import architecture

PACKAGE = Path(sim.__file__).parent / "interop" / "configs"


def refusal(kind: str, path: str | Path, *overrides: str, **more: object) -> str:
    with pytest.raises(ScenarioError) as caught:
        imported(kind, path, *overrides, **more)  # type: ignore[arg-type]
    return "\n".join(caught.value.errors)


def config_json(folder: Path, **fields: object) -> Path:
    """A config.json made from that of Qwen3 with other fields; None removes one."""
    content = json.loads((CONFIGS / "qwen3" / "config.json").read_text()) | fields
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    return path


def script(folder: Path, change: str = "", *, more: str = "") -> Path:
    """The launch script with ``change`` (``old -> new``) and further flags."""
    old, _, new = change.partition(" -> ")
    text = (CONFIGS / "gpt3_175b.sh").read_text()
    assert old in text
    path = folder / "train.sh"
    path.write_text(text.replace(old, new) + f"\npython pretrain_gpt.py {more}\n")
    return path


@pytest.mark.parametrize(("kind", "path"), FILES)
def test_every_kind_of_file_becomes_a_scenario_that_runs(kind: str, path: str) -> None:
    found = imported(kind, path)
    assert loads(found.yaml) == found.scenario
    assert sim.simulate(found.scenario).step_time_s > 0


@pytest.mark.parametrize(
    ("kind", "path", "model"),
    [
        ("primus", "experiments/llama_8b.yaml", "llama-3.1-8b"),
        ("megatron", "gpt3_175b.sh", "gpt-3-175b"),
        ("megatron", "megatron_head.log", "llama-3.1-8b"),
        ("torchtitan", "titan_head.log", "qwen3-32b"),
        ("hf", "qwen3/config.json", "qwen3-8b"),
        ("hf", "deepseek/config.json", "deepseek-v3-mtp"),
        ("hf", "mixtral/config.json", "mixtral-8x7b"),
    ],
)
def test_known_widths_are_the_model_of_the_catalog(kind: str, path: str, model: str) -> None:
    assert imported(kind, path).scenario.model == model


def test_a_primus_experiment_is_presets_overrides_and_defaults() -> None:
    found = imported("primus", "experiments/llama_8b.yaml", nodes=1)
    training, plan = found.scenario.training, found.scenario.parallelism
    assert found.scenario.name == "llama 8B in BF16"
    assert (training.sequence_length, training.global_batch, training.micro_batch) == (8192, 128, 2)
    assert (training.recompute.layers, training.cross_entropy, training.precision) == (4, "fused", "bf16")
    assert (plan.data_sharding, plan.overlap.dp, plan.tp) == ("zero-1", True, 1)  # the module preset's
    assert any("use_turbo_attention" in warning for warning in found.warnings)


def test_variables_are_put_in_from_the_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TP", "4")
    monkeypatch.setenv("SEQUENCE", "1024")
    found = imported("primus", "experiments/llama_8b.yaml", nodes=1, environment={"TP": "2", "BATCH": "64"})
    assert found.scenario.parallelism.tp == 2
    assert found.scenario.training.global_batch == 64
    assert found.scenario.training.sequence_length == 8192


def test_experts_their_dispatch_and_their_layers() -> None:
    found = imported("primus", "experiments/routed.yaml", nodes=2)
    model = architecture(found.scenario)
    assert model.experts is not None
    assert [kind.routed for kind in model.kinds] == [False] * 2 + [True] * 22
    assert (model.experts.groups, model.experts.group_limit, model.experts.shared_ffn) == (8, 4, 1024)
    moe, plan = found.scenario.training.moe, found.scenario.parallelism
    assert (moe.dispatch, moe.dispatch_units, moe.group_limited) == ("deduplicated", 48, False)
    assert (plan.schedule, plan.virtual_stages, plan.ep) == ("interleaved", 2, 8)
    assert any("routed.yaml:18: moe_shared_expert_overlap" in warning for warning in found.warnings)
    assert any("some_new_switch" in w and "routed.yaml:20" in w for w in found.warnings)


def test_a_script_is_read_with_its_variables() -> None:
    found = imported("megatron", "gpt3_175b.sh", nodes=None)
    assert found.scenario.cluster.nodes == 16  # torchrun's, from the default of a variable
    assert (found.scenario.parallelism.tp, found.scenario.parallelism.pp) == (8, 16)
    assert found.scenario.training.global_batch == 192
    other = imported("megatron", "gpt3_175b.sh", nodes=None, environment={"NUM_NODES": "32"})
    assert other.scenario.cluster.nodes == 32


def test_a_log_names_the_world() -> None:
    found = imported("megatron", "megatron_head.log", nodes=None)
    assert found.scenario.cluster.nodes == 8
    assert found.scenario.training.cross_entropy == "fused"


def test_torchtitan_in_toml() -> None:
    found = imported("torchtitan", "llama3_8b.toml", nodes=2)
    training, plan = found.scenario.training, found.scenario.parallelism
    assert (training.precision, training.recompute.kind, training.parameter_dtype) == (
        "fp8",
        "operator",
        "fp32",
    )
    assert (plan.tp, plan.hsdp_replicas, plan.data_sharding, plan.gather_dtype) == (2, 2, "fsdp", "fp8")
    assert training.global_batch == 8  # 1 for each of 16 GPUs / tp 2
    assert plan.overlap.tp


def test_torchtitan_recomputes_every_second_layer() -> None:
    found = imported("torchtitan", "titan_head.log", nodes=1)
    assert found.scenario.training.recompute.layers == 32
    assert found.scenario.training.global_batch == 64


def test_latent_attention_is_not_read_as_head_dim() -> None:
    model = architecture(imported("hf", "deepseek/config.json").scenario)
    assert model.head_dim == 192
    assert model.parameters == pytest.approx(685e9, rel=0.01)


def test_what_no_file_says_is_asked_for() -> None:
    with pytest.raises(ScenarioError) as caught:
        sim.import_scenario("hf", CONFIGS / "qwen3" / "config.json")
    text = "\n".join(caught.value.errors)
    assert "--node NAME" in text
    assert "--set training.sequence_length=N" in text
    with pytest.raises(ScenarioError, match="--nodes N"):
        sim.import_scenario("hf", CONFIGS / "qwen3" / "config.json", node=NODE, overrides=BATCH)


def test_a_hybrid_is_refused_by_name_and_place() -> None:
    text = refusal("primus", "experiments/hybrid.yaml")
    assert "hybrid.yaml:7:18: is_hybrid_model: true: not modelled yet: state-space" in text
    assert "--ignore" not in text  # without its layers it would be another model


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "qwen3_next"}, "linear attention"),
        ({"model_type": "jamba"}, "state-space layers"),
        ({"model_type": "brand_new"}, "is not known here; known: llama"),
        ({"hidden_size": None}, "hidden_size: is missing"),
        ({"hidden_size": "wide"}, "a whole number of 1 or more"),
        ({"num_key_value_heads": 7}, "no multiple"),
        ({"index_topk": 2048}, "an indexer chooses"),
        ({"layer_types": ["linear_attention"] * 36}, "full or sliding attention"),
        ({"vocab_size": 10**18}, "a whole number"),
    ],
)
def test_models_that_are_refused(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    text = refusal("hf", config_json(tmp_path, **fields))
    assert words in text
    assert text.startswith(str(tmp_path))


def test_windows_of_hugging_face(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "full_attention"] * 18
    path = config_json(tmp_path, model_type="mistral", sliding_window=1024, layer_types=kinds)
    model = architecture(imported("hf", path).scenario)
    assert (model.window, model.full_every) == (1024, 2)
    assert not architecture(imported("hf", config_json(tmp_path, sliding_window=4096)).scenario).window


def test_the_text_model_of_several_kinds_of_input(tmp_path: Path) -> None:
    inner = json.loads((CONFIGS / "qwen3" / "config.json").read_text())
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"model_type": "qwen3_vl", "text_config": inner, "vision_config": {"depth": 27}})
    )
    found = imported("hf", path)
    assert found.scenario.model == "qwen3-8b"
    assert any("encoders of other inputs are left out" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ("--bf16 -> --bf16 --optimizer muon", "", "optimizer: 'muon': not modelled yet"),
        ("--lr 6.0e-5 -> --moe-layer-recompute", "", "--ignore moe_layer_recompute"),
        ("TP=8 -> TP=$(nproc)", "", "'$TP' is not evaluated here: give --env TP=VALUE"),
        ("--hidden-size 12288 -> --hidden-size $(nproc)", "", "'$(nproc)' is not evaluated here"),
        ("TP=8 -> TP=$((4+4))", "", "is not evaluated here"),
        ("TP=8 -> TP=$DEGREE", "", "give --env TP=VALUE"),
        ("TP=8 -> TP=eight", "", "tensor-model-parallel-size: 'eight': a whole number"),
        ("TP=8 -> TP=5", "", "5 must divide heads (96)"),
        ("--num-layers 96 -> --num-layers 96 --spec a.b c", "", "Python code"),
        ("GPT2BPETokenizer -> MyTokenizer", "", "--set model.vocab=N"),
    ],
)
def test_scripts_that_are_refused(tmp_path: Path, change: str, more: str, words: str) -> None:
    assert words in refusal("megatron", script(tmp_path, change, more=more))


def test_a_command_in_a_script_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "touched"
    path = script(tmp_path, f"MASTER_ADDR=$(hostname) -> MASTER_ADDR=$(touch {mark}); `touch {mark}`")
    imported("megatron", path)
    assert not mark.exists()


def test_flags_inside_a_condition_are_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    text = (CONFIGS / "gpt3_175b.sh").read_text()
    path.write_text(f'{text}\nif [ "$FP8" = 1 ]; then\n  EXTRA=(--fp8-format hybrid)\nfi\n')
    found = imported("megatron", path)
    assert found.scenario.training.precision == "fp8"
    assert any("--fp8-format: inside a condition" in warning for warning in found.warnings)


BRANCHES = """
SIZE="${SIZE:-70}"
FP8=${FP8:-0}
TOKENIZER=${3:-"MOCK"}
if [[ $SIZE -eq 8 ]]; then
    HIDDEN=4096
elif [[ $SIZE -eq 70 ]]; then
    HIDDEN=8192
else
    HIDDEN=1
fi
ARGS="--num-layers 8 --hidden-size $HIDDEN --num-attention-heads 32 --seq-length 1024"
ARGS="$ARGS --micro-batch-size 1 --global-batch-size 64 --bf16"
if [ "$FP8" -eq 1 ] && [ "$SIZE" -gt 1 ]; then
    ARGS="$ARGS --fp8-format=hybrid"
fi
DATA=()
if [[ "$TOKENIZER" == "MOCK" ]] || [[ -z "$OTHER" ]]; then
    DATA+=("--tokenizer-type NullTokenizer" "--vocab-size 999")
else
    DATA+=("--vocab-size 7")
fi
eval torchrun --nnodes 1 --nproc_per_node $(nproc) "$SCRIPT" $ARGS "${DATA[@]}"
"""


def test_of_known_conditions_the_branch_that_is_taken_counts(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(BRANCHES)
    found = imported("megatron", path, nodes=None)
    model = architecture(found.scenario)
    assert (model.hidden, model.vocab) == (8192, 1000)
    assert found.scenario.training.precision == "bf16"
    assert not any("condition" in warning for warning in found.warnings)
    other = imported("megatron", path, nodes=None, environment={"SIZE": "8", "FP8": "1"})
    assert architecture(other.scenario).hidden == 4096
    assert other.scenario.training.precision == "fp8"


@pytest.mark.parametrize(
    ("words", "truth"),
    [
        ("[ 3 -gt 1 ]", True),
        ("[[ a == b ]]", False),
        ("[ a != b ]", True),
        ("[ -z  ]", None),
        ("[[ x -eq 1 ]]", None),
        ("[[ a == a* ]]", None),
        ("[ -f file ]", None),
        ("test a = a", None),
        ("[ 1 -eq 1 ]]", None),
    ],
)
def test_comparisons_of_words(words: str, truth: bool | None) -> None:
    from sim.interop.configs.shell_branches import comparison

    assert comparison([*words.split(" ")] if "-z  " not in words else ["[", "-z", None, "]"]) is truth


def test_an_ignored_setting_is_warned_of(tmp_path: Path) -> None:
    path = script(tmp_path, more="--moe-layer-recompute")
    found = imported("megatron", path, ignore=("moe_layer_recompute",))
    assert any("moe_layer_recompute" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [("Et*3|(tt|)*29,m|L", [3, *[2] * 29, 0, 0]), ("E|(t|)*2,tt|L", [0, 1, 1, 2, 0]), ("Ett|ttL", [2, 2])],
)
def test_pipeline_layouts(pattern: str, layers: list[int]) -> None:
    from sim.interop.configs.repeats import stage_layers

    assert list(stage_layers(pattern)[0]) == layers


@pytest.mark.parametrize(
    "pattern", ["t|L", "EtL|t", "Et*99999|L", "(((t)*9999)*9999|EL", "E__import__|L", ""]
)
def test_layouts_that_are_none(pattern: str) -> None:
    from sim.interop.configs.repeats import LayerPatternError, stage_layers

    with pytest.raises(LayerPatternError):
        stage_layers(pattern)


@pytest.mark.parametrize("pattern", ["__import__('os')", "[0]*3+", "[0]**9", "[2]", "[1]*99999", "range(4)"])
def test_layer_patterns_are_never_evaluated(pattern: str) -> None:
    from sim.interop.configs.repeats import LayerPatternError, layer_pattern

    with pytest.raises(LayerPatternError):
        layer_pattern(pattern)


def experiment(folder: Path, text: str) -> Path:
    path = folder / "experiment.yaml"
    path.write_text(text)
    return path


def test_presets_outside_the_tree_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("num_layers: 3\n")
    home = tmp_path / "home"
    home.mkdir()
    start = "modules: {pre_trainer: {framework: megatron, model: "
    assert "lies outside" in refusal("primus", experiment(home, f"{start}../../../../secret.yaml}}}}"))
    assert "lies outside" in refusal(
        "primus", experiment(home, f"extends: [{secret}]\n{start}llama_8b.yaml}}}}")
    )
    (home / "link.yaml").symlink_to(secret)
    assert "lies outside" in refusal(
        "primus", experiment(home, f"extends: [link.yaml]\n{start}llama_8b.yaml}}}}")
    )


def test_presets_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: [b.yaml]\n")
    (tmp_path / "b.yaml").write_text("extends: [a.yaml]\n")
    text = refusal("primus", experiment(tmp_path, "extends: [a.yaml]\nmodules: {}\n"))
    assert "b.yaml:1:11: extends: a loop: a.yaml -> b.yaml -> a.yaml" in text


def test_a_fan_of_presets_is_cut(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / f"p{i}.yaml").write_text(f"extends: [{', '.join([f'p{i + 1}.yaml'] * 9)}]\n")
    (tmp_path / "p12.yaml").write_text("a: 1\n")
    assert "64 in all" in refusal("primus", experiment(tmp_path, "extends: [p0.yaml]\nmodules: {}\n"))


def test_a_preset_is_no_experiment() -> None:
    assert "this is a model preset" in refusal("primus", ROOT / "models" / "megatron" / "llama_8b.yaml")


@pytest.mark.parametrize("tool", ["megatron", "torchtitan", "huggingface"])
def test_what_the_tables_call_modelled_is_read(tool: str) -> None:
    """Each name stands in the importer's code; no name is in two groups."""
    code = "".join(path.read_text() for path in PACKAGE.glob("*.py"))
    table = keys(tool)
    for name in table.modelled:
        assert re.search(rf'["._}}]{name.rpartition(".")[2]}"', code), name
        assert name not in table.not_modelled
        assert not table._matches(name), name


def test_families_and_refused_architectures_are_apart() -> None:
    from sim.interop.configs.huggingface import _refused

    assert not set(FAMILIES) & set(_refused())


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("hf", b""),
        ("hf", b'{"model_type": "llama"'),
        ("hf", b'{"a": ' * 2000),
        ("hf", b"[" * 100000),
        ("hf", b'{"a": 1, "a": 2}'),
        ("hf", b"\x00\x01\x02"),
        ("hf", b'"llama"'),
        ("torchtitan", b"a = " + b"[" * 3000),
        ("torchtitan", b"[model\nname = 1"),
        ("torchtitan", b"Running with configs: {'a': __import__('os').system('x')}"),
        ("torchtitan", b"a = " + b"9" * 9000),
        ("megatron", b"echo nothing here"),
        ("megatron", b"------- arguments -------\n  tp ... 8\n"),
        ("megatron", b'#: cluster.stack = "./mine.yaml"\n--num-layers 4'),
        ("megatron", b"A='" + b"x" * 500000),
        (
            "megatron",
            b'A="$A$A"\n'
            b'B0="x--x"\n'
            + b"".join(b'B%d="$B%d$B%d"\n' % (i + 1, i, i) for i in range(30))
            + b"python x.py --num-layers $B30",
        ),
        (
            "primus",
            b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
            + b"".join(b"d%d: &d%d [*c, *c, *c, *c]\n" % (i, i) for i in range(900)),
        ),
        ("primus", b"modules: !!python/object/apply:os.system [x]"),
        ("primus", b"modules: {pre_trainer: {framework: maxtext}}"),
        ("primus", b"x" * 2_000_000),
    ],
    ids=range(20),
)
def test_hostile_files_are_refused_at_a_place(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    text = refusal(kind, path)
    assert text.startswith(str(path))


def test_logs_longer_than_a_configuration(tmp_path: Path) -> None:
    """Only the head is read, behind what torchrun puts before each line."""
    for kind, name in (("megatron", "megatron_head.log"), ("torchtitan", "titan_head.log")):
        path = tmp_path / name
        lines = (CONFIGS / name).read_text().splitlines() + ["step: 2  loss: 11.0 " + "." * 100] * 12_000
        prefix = "[default0]:" if kind == "megatron" else "[rank0]:"
        path.write_text("\n".join(line if line.startswith("[") else prefix + line for line in lines) + "\n")
        assert path.stat().st_size > 1_000_000
        found = imported(kind, path, nodes={"megatron": 8, "torchtitan": 1}[kind])
        assert found.scenario == imported(kind, name).scenario


def test_a_log_without_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step: 1  loss: 12.2\n")
    assert "nor is there a line of a log" in refusal("torchtitan", path)


def test_words_of_yaml_1_1_mean_true_and_false(tmp_path: Path) -> None:
    text = (CONFIGS / "experiments" / "llama_8b.yaml").read_text()
    more = "      moe_layer_recompute: no\n      use_distributed_optimizer: off\n"
    path = experiment(tmp_path, text + more)
    assert imported("primus", path, nodes=1).scenario.parallelism.data_sharding == "ddp"
    assert "--ignore moe_layer_recompute" in refusal(
        "primus", experiment(tmp_path, text + more.replace("no", "on", 1))
    )


def test_names_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    text = (CONFIGS / "experiments" / "llama_8b.yaml").read_text()
    found = imported("primus", experiment(tmp_path, text + '      "\\e[31mred\\n# x": 3\n'), nodes=1)
    assert any("red" in warning for warning in found.warnings)
    assert "\x1b" not in "".join(found.warnings) + found.yaml
    assert loads(found.yaml) == found.scenario


def test_an_empty_experiment_is_no_scenario_file(tmp_path: Path) -> None:
    assert refusal("primus", experiment(tmp_path, "")).endswith(": the file is empty")
    assert "not a configuration file" in refusal("hf", experiment(tmp_path, "x" * 1_100_000))


def command(*arguments: str, folder: Path = CONFIGS) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parents[2])}
    program = [sys.executable, "-m", "sim.cli", *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def test_the_command_writes_a_file_that_runs(tmp_path: Path) -> None:
    target = tmp_path / "scenario.yaml"
    done = command(
        "import", "primus", "experiments/llama_8b.yaml", "--root", "primus", "--node", NODE, "--nodes", "1",
        "--env", "TP=2", "--set", "training.micro_batch=4", "-o", str(target),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "note: " in done.stderr
    scenario = sim.load(target)
    assert (scenario.parallelism.tp, scenario.training.micro_batch) == (2, 4)


def test_the_command_refuses_with_places() -> None:
    done = command("import", "primus", "experiments/hybrid.yaml", "--root", "primus")
    assert done.returncode == 2
    assert "hybrid.yaml:8:26" in done.stderr
    assert "Traceback" not in done.stderr
    for arguments in (["hf", "nowhere.json"], ["megatron", "."], ["hf", "qwen3/config.json", "--env", "x"]):
        done = command("import", *arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_the_command_prints_json() -> None:
    done = command("import", "megatron", "gpt3_175b.sh", "--node", NODE, "--json")
    found = json.loads(done.stdout)
    assert set(found) == {"scenario", "source", "warnings"}
    assert loads(found["scenario"]).parallelism.pp == 16
