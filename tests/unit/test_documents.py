"""What README and docs show works: commands and Python blocks marked ``<!-- run -->`` are executed, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sim.causes import CAUSES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"<!-- run -->\n```(bash|python)\n(.*?)\n```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def marked_blocks() -> list[tuple[str, str, str]]:
    return [
        (f"{page.relative_to(ROOT)}-{number}", *block)
        for page in PAGES
        for number, block in enumerate(BLOCK.findall(page.read_text("utf-8")), start=1)
    ]


def command(name: str) -> str:
    readme = (ROOT / "README.md").read_text("utf-8")
    match = re.search(rf"<!-- command:{name} -->\n```bash\n(.*?)\n```", readme, re.DOTALL)
    assert match, f"README.md lost its command {name!r}"
    return match[1]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the shipped scenarios and room for what the commands write."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    return tmp_path


@pytest.mark.parametrize(
    ("where", "language", "code"), marked_blocks(), ids=[block[0] for block in marked_blocks()]
)
def test_marked_blocks_run(where: str, language: str, code: str, desk: Path) -> None:
    if language == "bash":
        code = f'set -euo pipefail; sim() {{ "{sys.executable}" -m sim.cli "$@"; }}\n{code}'
        program = ["bash", "-c", code]
    else:
        program = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=desk, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{where}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.stdout


def test_the_readme_shows_commands_and_python_that_run() -> None:
    languages = {language for where, language, _ in marked_blocks() if where.startswith("README")}
    assert languages == {"bash", "python"}


def test_the_two_commands_are_one_line_each_and_start_from_a_bare_python() -> None:
    for name in ("try", "test"):
        line = command(name)
        assert "\n" not in line
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e ")


def test_the_first_command_predicts_a_shipped_scenario() -> None:
    scenario = command("try").split()[-1]
    assert (ROOT / scenario).is_file()


def test_the_second_command_installs_an_extra_that_exists() -> None:
    extra = re.search(r"'\.\[(\w+)\]'", command("test"))
    assert extra
    assert (
        extra[1] in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_table_of_causes_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    table = page.split("<!-- causes:begin -->")[1].split("<!-- causes:end -->")[0].strip().splitlines()
    assert table[2:] == [f"| {cause.label} | `{cause.key}` | {cause.description} |" for cause in CAUSES]
