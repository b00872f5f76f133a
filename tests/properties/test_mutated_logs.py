"""Whatever happens to a log, it is read or refused with a located message: no other exception."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fakes.logs import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.interop import LogError, read_log
from sim.interop.bus_bandwidth import COLLECTIVES, bus_factor, ranks_of
from sim.interop.printed import Printed

TRAINING = DATA.parent / "training_logs"
EXAMPLES = sorted(path for folder in (DATA, TRAINING) for path in folder.iterdir() if path.suffix != ".md")
JUNK = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"N/A", b"-1", b"1e400", b"|", b",", b"\n", b"9" * 50, b"GPU", b"[0]:", b"\r", b"0"]),
)


def read(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{suffix}"
        path.write_bytes(content)
        message = refusal(path)
        assert message is None or message.startswith(str(path))


def refusal(path: Path) -> str | None:
    """What is said against the log; None where it is read."""
    try:
        read_log(path)
    except LogError as error:
        return str(error)
    return None


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_changed_anywhere(example: Path, data: st.DataObject) -> None:
    content = bytearray(example.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        gone = data.draw(st.integers(0, 12))
        content[at : at + gone] = data.draw(JUNK)
    read(bytes(content), example.suffix)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(EXAMPLES), st.floats(0, 1))
def test_cut_anywhere(example: Path, part: float) -> None:
    content = example.read_bytes()
    read(content[: int(part * len(content))], example.suffix)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes(content: bytes) -> None:
    read(content, ".txt")


@given(
    st.sampled_from([kind for kind, passes in COLLECTIVES.items() if passes]),
    st.integers(2, 4096),
    st.floats(1.0, 1000.0),
)
def test_the_ranks_are_among_those_that_rounded_bandwidths_allow(
    kind: str, ranks: int, rate_GBps: float
) -> None:
    rate = Printed(round(rate_GBps, 2), 0.005)
    bus = Printed(round(rate_GBps * bus_factor(kind, ranks), 2), 0.005)
    allowed = ranks_of(kind, *bus.over(rate))
    assert allowed is not None
    assert allowed[0] <= ranks <= allowed[1]


@given(st.sampled_from([kind for kind, passes in COLLECTIVES.items() if passes]), st.integers(2, 100_000))
def test_exact_bandwidths_tell_the_ranks(kind: str, ranks: int) -> None:
    factor = bus_factor(kind, ranks)
    assert ranks_of(kind, factor, factor) == (ranks, ranks)
