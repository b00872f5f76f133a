"""Whatever happens to a configuration, it is imported or refused with located messages: no other exception."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fakes.configs import BATCH, CONFIGS, FILES, NODE
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.interop import LogError
from sim.scenario import ScenarioError

JUNK = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        [b"null", b"-1", b"1e400", b"{", b"]", b'"', b"'", b"\n", b"9" * 50, b"$(x)", b"${A", b"${B:-$B}", b"`",
         b"&a ", b"*a", b"<<: ", b"!!x ", b"\x00", b"\xff", b": ", b"=", b"--", b"(", b"#: ", b"[0]*9", b"\\"]
    ),
)  # fmt: skip


def check(kind: str, path: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "configs"
        shutil.copytree(CONFIGS, home)
        file = home / path
        file.write_bytes(content)
        errors = refusals(kind, file, home / "primus")
        assert all(error.startswith((str(home), "--node")) for error in errors), errors


def refusals(kind: str, file: Path, root: Path) -> tuple[str, ...]:
    """What is said against the file; nothing where it is imported."""
    overrides = BATCH if kind == "hf" else ()
    try:
        sim.import_scenario(kind, file, node=NODE, nodes=2, overrides=overrides, root=root)
    except (ScenarioError, LogError) as error:
        return error.errors
    return ()


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_changed_anywhere(example: tuple[str, str], data: st.DataObject) -> None:
    content = bytearray((CONFIGS / example[1]).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        gone = data.draw(st.integers(0, 12))
        content[at : at + gone] = data.draw(JUNK)
    check(*example, bytes(content))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FILES), st.floats(0, 1))
def test_cut_anywhere(example: tuple[str, str], part: float) -> None:
    content = (CONFIGS / example[1]).read_bytes()
    check(*example, content[: int(part * len(content))])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FILES), st.binary(max_size=2000))
def test_any_bytes(example: tuple[str, str], content: bytes) -> None:
    check(*example, content)
