from __future__ import annotations

from pathlib import Path

import pytest

from sim import data_paths


def test_the_checkout_has_scenarios_and_measured_runs() -> None:
    assert list(data_paths.scenarios_dir().glob("*.yaml"))
    assert list(data_paths.measured_dir().glob("*.yaml"))


def test_without_a_checkout_the_packaged_copies_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "sim"
    (package / "shipped" / "scenarios").mkdir(parents=True)
    (tmp_path / "site-packages" / "scenarios").mkdir()  # somebody else's: no project file beside it
    monkeypatch.setattr(data_paths, "_PACKAGE", package)
    assert data_paths.scenarios_dir() == package / "shipped" / "scenarios"


def test_an_installation_without_data_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_paths, "_PACKAGE", tmp_path / "sim")
    with pytest.raises(FileNotFoundError, match="has no validation/: looked in"):
        data_paths.measured_dir()
