"""Ledger files: what loads, and what is refused where and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.ledger import LedgerError, load_directory, load_file
from sim.scenario.yaml_document import plain

GOOD = """\
source: {title: A table, url: "https://example.org", date: 2025-11-12}
scenario:
  cluster: {node: mi325x-8x400g, nodes: 1}
  training: {sequence_length: 4096, precision: bf16}
runs:
  - id: one
    split: fit
    source: {where: table 2}
    scenario: {model: llama-3.1-8b, training: {global_batch: 16}}
    measured: {step_time_s: 1.25}
    assumed: [recompute is none]
  - id: two
    split: check
    scenario: {model: llama-3.1-8b, training: {global_batch: 32, precision: fp8}}
    measured: {tokens_per_s_per_gpu: 1e4, peak_memory_bytes: 6e10, memory_kind: reserved}
    tuned: false
    untuned_evidence: "the README says so"
set_aside:
  - {id: three, reason: printed twice}
"""


def written(folder: Path, text: str, name: str = "ledger.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def errors_of(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(LedgerError) as caught:
        load_file(written(folder, text))
    return caught.value.errors


def test_a_run_is_merged_onto_what_its_file_shares(tmp_path: Path) -> None:
    one, two = load_file(written(tmp_path, GOOD)).runs
    assert plain(one.document) == {
        "cluster": {"node": "mi325x-8x400g", "nodes": 1},
        "training": {"sequence_length": 4096, "precision": "bf16", "global_batch": 16},
        "model": "llama-3.1-8b",
    }
    assert plain(two.document)["training"] == {
        "sequence_length": 4096,
        "precision": "fp8",
        "global_batch": 32,
    }
    assert (one.split, one.measured.step_time_s, one.assumed) == ("fit", 1.25, ("recompute is none",))
    assert (one.source.title, one.source.where, one.source.date) == ("A table", "table 2", "2025-11-12")
    assert (two.tuned, two.untuned_evidence, two.measured.memory_kind) == (
        False,
        "the README says so",
        "reserved",
    )


def test_set_aside_rows_keep_their_reason(tmp_path: Path) -> None:
    file = load_file(written(tmp_path, GOOD))
    assert [(row.id, row.reason) for row in file.set_aside] == [("three", "printed twice")]


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("split: fit", "split: train", ":7:5", "'train': should be one of fit, check"),
        ("step_time_s: 1.25", "step_time_s: -1", ":10:29", "-1: should be above zero"),
        ("step_time_s: 1.25", "step_time_s: fast", ":10:29", "'fast': should be a number"),
        ("step_time_s: 1.25", "step_tim_s: 1.25", ":10:16", "unknown key; did you mean 'step_time_s'?"),
        ("{step_time_s: 1.25}", "1.25", ":10:15", "1.25: should be a mapping"),
        ("    assumed: [recompute is none]", "    assumed: everything", ":11:5", "should be a list of texts"),
        ("    assumed: [recompute is none]", "    asumed: []", ":11:5", "unknown key; did you mean 'assumed'?"),
        ('    untuned_evidence: "the README says so"\n', "", ":12:5", "untuned_evidence: missing"),
        ("  - id: two", "  - id: one", ":12:5", "'one' is already the id of the run at line 6"),
        ("  - id: one\n    split", "  - split", ":6:5", "id: missing"),
        ("reason: printed twice", "because: printed twice", ":19:17", "unknown key"),
        ("source: {title: A table, url: \"https://example.org\", date: 2025-11-12}\n", "", ":1:1", "source: missing"),
        ("memory_kind: reserved", "memory_kind: used", ":15:68", "one of allocated, reserved, device"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, old: str, new: str, where: str, what: str
) -> None:
    assert old in GOOD
    errors = errors_of(tmp_path, GOOD.replace(old, new, 1))
    assert any(what in error and f"ledger.yaml{where}" in error for error in errors), errors


def test_all_errors_of_a_file_come_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("split: fit", "split: no").replace("step_time_s: 1.25", "step_time_s: 0")
    assert len(errors_of(tmp_path, text)) == 2


def test_a_measurement_needs_a_figure(tmp_path: Path) -> None:
    errors = errors_of(tmp_path, GOOD.replace("{step_time_s: 1.25}", "{memory_kind: device}"))
    assert "give at least one of step_time_s" in errors[0]


def test_a_file_that_is_not_a_mapping(tmp_path: Path) -> None:
    assert "should be a mapping" in errors_of(tmp_path, "- 1\n- 2\n")[0]


def test_broken_yaml_is_located(tmp_path: Path) -> None:
    assert "ledger.yaml:2:" in errors_of_any(tmp_path, "runs: [\n")


def errors_of_any(folder: Path, text: str) -> str:
    with pytest.raises(ValueError, match="not valid YAML") as caught:
        load_file(written(folder, text))
    return str(caught.value)


def test_a_folder_reports_the_errors_of_all_its_files(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("split: fit", "split: no"), "a.yaml")
    written(tmp_path, GOOD.replace("split: fit", "split: yes"), "b.yml")
    with pytest.raises(LedgerError) as caught:
        load_directory(tmp_path)
    assert [error.split(":")[0][-6:] for error in caught.value.errors] == ["a.yaml", "/b.yml"]


def test_two_files_may_not_share_an_id(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "a.yaml")
    written(tmp_path, GOOD, "b.yaml")
    with pytest.raises(LedgerError, match=r"'one' is also at .*a\.yaml:6"):
        load_directory(tmp_path)


def test_an_empty_or_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"holds no \*\.yaml"):
        load_directory(tmp_path)
    with pytest.raises(FileNotFoundError):
        load_directory(tmp_path / "absent")
