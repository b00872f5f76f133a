"""``sim validate --micro``: the page, the JSON form, a wrong folder."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from sim import cli
from sim.ledger import validate_micro
from sim.report.terminal.console import console
from sim.report.terminal.micro_page import micro_page

ROWS = """\
benchmark: stream
groups:
  - source: {title: a paper}
    shared: {kind: measured, confidence: high, split: check, gpu: mi300x}
    rows:
      - {op: triad, GBps: 4000}
      - {op: copy, GBps: 9000, kind: floor}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "streams.yaml").write_text(ROWS)
    return tmp_path


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sim", "validate", "--micro", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert called(monkeypatch, "--runs", str(folder), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["summary"]["check"]["HBM stream"]["rows"] == 1
    assert report["summary"]["floors_violated"] == 1


def test_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert called(monkeypatch, "--runs", str(folder)) == 0
    out = capsys.readouterr().out
    assert "HBM stream" in out
    assert "Acceptance floors above the prediction" in out


@pytest.mark.parametrize("columns", [80, 120])
def test_page_fits_the_terminal(columns: int) -> None:
    stream = io.StringIO()
    console(stream, columns).print(micro_page(validate_micro().to_dict()))
    assert max(map(len, stream.getvalue().splitlines())) <= columns


def test_located_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "streams.yaml").write_text(ROWS.replace("GBps: 4000", "GBs: 4000"))
    assert called(monkeypatch, "--runs", str(folder)) == 2
    assert "streams.yaml:6:" in capsys.readouterr().err
