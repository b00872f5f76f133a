"""``docs/scenario.md`` against the schema, the aliases and the errors that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sim.scenario import ScenarioError, loads
from sim.scenario.aliases import ALIASES
from sim.scenario.field_table import SCENARIO_PAGE, field_tables, sections, with_tables, write_page

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / SCENARIO_PAGE).read_text("utf-8")


def rows(section: str) -> dict[str, list[str]]:
    """Cells of one section's table by field."""
    title = f"`{section}`" if section else "Top level"
    table = field_tables().split(f"### {title}\n\n")[1].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_the_tables_are_those_of_the_schema() -> None:
    assert with_tables(PAGE) == PAGE, "run: python -m sim.scenario"


def test_every_field_of_every_section_has_a_full_row() -> None:
    found = dict(sections())
    assert {
        "",
        "model",
        "cluster",
        "cluster.gpu",
        "cluster.scale_up",
        "training",
        "parallelism.overlap",
    } <= set(found)
    for section, model in found.items():
        table = rows(section)
        assert {info.alias or name for name, info in model.model_fields.items()} == set(table) - {"extends"}
        for field, (_, default, allowed, words) in table.items():
            assert default, f"{section}.{field}"
            assert allowed, f"{section}.{field}"
            assert words, f"{section}.{field}"


@pytest.mark.parametrize(
    ("section", "field", "cells"),
    [
        ("cluster", "power_cap", ["W, such as `600 W`", "–", "1 W to 10 kW"]),
        ("cluster.gpu", "hbm", ["B, such as `192 GB`", "–", "1 GB to 100 TB"]),
        ("training", "global_batch", ["sequences", "**required**", "1 to 100,000,000"]),
        ("training", "recompute", ["", "`none`", "`none`, `selective`, `operator`, `full` or `{layers: N}`"]),
        ("parallelism", "layout", ["", "`auto`", "`auto`, or a list of whole numbers, one per stage"]),
        ("parallelism.overlap", "dp", ["", "`true`", "`true`, `false`"]),
        ("", "model", ["", "**required**", "name of the catalog, or a mapping: see `model`"]),
    ],
)
def test_rows_say_unit_default_and_bounds(section: str, field: str, cells: list[str]) -> None:
    assert rows(section)[field][:3] == cells


def test_every_alias_is_listed() -> None:
    listed = PAGE.split("<!-- aliases:begin -->")[1].split("<!-- aliases:end -->")[0]
    for alias in ALIASES:
        assert f"| `{alias.section}.{alias.name}` | `{alias.section}.{alias.field}` |" in listed


def test_the_errors_shown_are_the_errors_raised() -> None:
    written = re.search(r"cat > wrong\.yaml <<'EOF'\n(.*?)EOF\n", PAGE, re.DOTALL)
    shown = re.search(r"<!-- errors -->\n```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert written
    assert shown
    with pytest.raises(ScenarioError) as caught:
        loads(written[1], source="wrong.yaml")
    assert shown[1].splitlines() == [*caught.value.errors]


def test_a_page_without_markers_is_refused_and_a_missing_one_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fields:begin"):
        with_tables("# The scenario file\n")
    assert not write_page(tmp_path)
