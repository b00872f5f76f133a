"""The command as a person meets it: exit codes, messages, streams. Runs in subprocesses where the process matters."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.results import stage_memory, step_result

import sim
from sim import cli
from sim.data_paths import scenarios_dir
from sim.results import StepResult

HEAVY = ("simpy", "numpy", "pandas", "scipy", "plotly", "pydantic", "streamlit")
EXAMPLE = str(scenarios_dir() / "llama3.1-8b_8xmi325x.yaml")


def sim_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "sim.cli", *arguments], capture_output=True, text=True, check=False, env=environment, **options
    )  # fmt: skip


class Call:
    """Runs the command inside this process, with simulation replaced by a made result."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scenario: Path
    ) -> None:
        self.patch, self.capture = monkeypatch, capsys
        scenario.write_text("name: any file will do, nothing reads it\n")
        self.scenario = str(scenario)
        self.overrides: tuple[str, ...] = ()
        self.result = step_result()
        monkeypatch.setitem(vars(sim), "load", self._load)
        monkeypatch.setitem(vars(sim), "simulate", lambda _: self.result)

    def _load(self, path: Path, overrides: tuple[str, ...]) -> Path:
        self.overrides = overrides
        return path

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.patch.setattr(sys, "argv", ["sim", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = self.capture.readouterr()
        return int(exit_.value.code or 0), out, err


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    return Call(monkeypatch, capsys, tmp_path / "scenario.yaml")


def test_help_imports_nothing_heavy_and_costs_little() -> None:
    code = (
        "import sys, time; sys.argv = ['sim', '--help']\n"
        "from sim.cli import main\n"
        "try: main()\n"
        "except SystemExit as exit_: assert not exit_.code\n"
        f"print('LOADED', [m for m in {HEAVY} if m in sys.modules], time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "validate" in done.stdout
    loaded, seconds = done.stdout.split("LOADED ")[1].rsplit(maxsplit=1)
    assert loaded == "[]"
    assert float(seconds) < 0.5


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"trainsim {sim.__version__}\n", "")


def test_run_prints_the_page(call: Call) -> None:
    code, out, err = call("run", call.scenario)
    assert (code, err) == (0, "")
    assert "Where the step goes" in out
    assert "\x1b" not in out


def test_run_memory_prints_the_stages(call: Call) -> None:
    code, out, _ = call("run", call.scenario, "--memory")
    assert code == 0
    assert "peak at" in out
    assert "Where the step goes" not in out


def test_run_json_is_the_result(call: Call) -> None:
    code, out, err = call("run", call.scenario, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(step_result().to_dict()))


def test_overrides_reach_the_loader_in_order(call: Call) -> None:
    call("run", call.scenario, "--set", "parallelism.tp=4", "--set", "training.micro_batch=2")
    assert call.overrides == ("parallelism.tp=4", "training.micro_batch=2")


def does_not_fit() -> StepResult:
    return step_result(memory=(stage_memory(verdict="does not fit"),))


@pytest.mark.parametrize("form", [(), ("--json",), ("--memory",)])
def test_what_does_not_fit_is_printed_and_exits_3(call: Call, form: tuple[str, ...]) -> None:
    call.result = does_not_fit()
    code, out, err = call("run", call.scenario, *form)
    assert (code, err) == (3, "")
    assert "does not fit" in out


def test_at_risk_exits_0(call: Call) -> None:
    call.result = step_result(memory=(stage_memory(verdict="at risk"),))
    assert call("run", call.scenario)[0] == 0


def test_trace_is_written_beside_json_that_stays_clean(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "step.json.gz"
    code, out, err = call("run", call.scenario, "--json", "--trace", str(path))
    assert code == 0
    assert json.loads(out)["mfu"] == step_result().mfu
    assert str(path) in err
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_a_trace_that_cannot_be_written_is_said(call: Call, tmp_path: Path) -> None:
    code, out, err = call("run", call.scenario, "--trace", str(tmp_path / "missing" / "step.json"))
    assert (code, out) == (2, "")
    assert "missing/step.json: No such file or directory" in err


def test_a_missing_file_is_named_with_the_nearest_one(call: Call) -> None:
    code, out, err = call("run", "scenarios/llama3.1-8b_8xmi352x.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("error: scenarios/llama3.1-8b_8xmi352x.yaml: no such file; did you mean ")
    assert "llama3.1-8b_8xmi325x.yaml" in err


def test_a_folder_is_not_a_scenario(call: Call, tmp_path: Path) -> None:
    assert call("run", str(tmp_path)) == (
        2,
        "",
        f"error: {tmp_path}: is a folder; name a scenario file in it\n",
    )


def test_input_errors_of_the_simulator_are_messages(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> StepResult:
        raise ValueError("7 stages do not divide 8 GPUs")

    monkeypatch.setitem(vars(sim), "simulate", refuse)
    assert call("run", call.scenario) == (2, "", "error: 7 stages do not divide 8 GPUs\n")


def test_bugs_are_not_disguised_as_bad_input(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> StepResult:
        raise KeyError("gemm")

    monkeypatch.setitem(vars(sim), "simulate", fail)
    monkeypatch.setattr(sys, "argv", ["sim", "run", call.scenario])
    with pytest.raises(KeyError):
        cli.main()


def test_validate_refuses_a_missing_folder(call: Call) -> None:
    code, out, err = call("validate", "--runs", "no/such/folder")
    assert (code, out, err) == (2, "", "error: --runs no/such/folder: no such folder\n")


def test_unknown_catalog_name_lists_near_ones() -> None:
    done = sim_process("catalog", "mi300")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: unknown catalog entry 'mi300'")
    assert "mi300x" in done.stderr
    assert "Traceback" not in done.stderr


def test_catalog_lists_every_kind() -> None:
    done = sim_process("catalog")
    assert done.returncode == 0, done.stderr
    for words in ("gpus", "nodes", "nics", "stacks", "models", "mi325x", "llama-3.1-8b"):
        assert words in done.stdout


@pytest.mark.parametrize("name", ["mi325x", "llama-3.1-8b"])
def test_catalog_entry_as_json_has_sources(name: str) -> None:
    entry = json.loads(sim_process("catalog", name, "--json").stdout)
    assert entry["name"] == name
    assert entry["figures"]
    assert all(figure["source"] and figure["confidence"] for figure in entry["figures"])


def test_schema_is_a_json_schema() -> None:
    assert "properties" in json.loads(sim_process("schema").stdout)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m sim.cli catalog --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "["
    assert done.stderr == ""


def test_a_terminal_without_utf8_is_no_error() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "sim.cli", "run", EXAMPLE],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "step time" in done.stdout


def test_a_wrong_override_is_located() -> None:
    done = sim_process("run", EXAMPLE, "--set", "cluster.nodes=-1")
    assert done.returncode == 2
    assert "cluster.nodes" in done.stderr
    assert "Traceback" not in done.stderr
