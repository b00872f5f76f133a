"""Lines of a log, cleaned of what launchers add, in bounded memory.

``srun --label``, ``mpirun --tag-output``, torchrun and pdsh put a name before every line; terminals add
colours and progress bars carriage returns. A log can also be something else altogether: nothing, a
binary, a gigabyte. Every fault is a ``LogError`` located at ``file:line``.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 64 * 2**20  # debug output of a thousand ranks stays below it
MAX_LINE_BYTES = 64 * 2**10

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PREFIX = re.compile(
    r"\s*(?:\d+:\s"  # srun --label
    r"|\[[^\]\s]{1,120}\]<std(?:out|err|diag)>:\s?"  # mpirun --tag-output
    r"|\[rank\d+\]:?\s?"  # torchrun
    r"|[A-Za-z][\w.-]{0,63}:\s+(?=[#\d]))"  # pdsh, clush
)
_NOT_TEXT = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_PACKED = {b"\x1f\x8b": "gzip", b"\xfd7": "xz", b"BZ": "bzip2", b"PK": "zip", b"(\xb5": "zstd"}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class LogError(ValueError):
    """A log that cannot be used. The text is ``file:line: what is wrong: what would be right``."""

    @property
    def errors(self) -> tuple[str, ...]:
        """Located messages, one per line, as of every input error of the project."""
        return (str(self),)


@dataclass(frozen=True)
class Line:
    """One line. ``text`` has no prefix, colour or surrounding blanks; ``ended`` is False for a last line that breaks off.

    ``printer`` is the prefix that a launcher put before it: it tells ranks apart.
    """

    path: str
    number: int
    text: str
    ended: bool = True
    printer: str = ""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.number}"

    def error(self, message: str) -> LogError:
        return LogError(f"{self.place}: {message}")


def read_lines(path: str | Path) -> Iterator[Line]:
    """The lines of ``path`` one at a time, empty ones left out.

    Raises ``LogError`` for a file that is missing, no regular file, empty, binary, or longer than
    ``MAX_BYTES`` in all or ``MAX_LINE_BYTES`` in one line.
    """
    name = str(path)
    try:
        _require_regular(Path(path), name)
        with Path(path).open("rb") as file:
            yield from _lines(file, name)
    except OSError as error:
        raise LogError(f"{name}: {error.strerror or error}: the path of a log file is due here") from None


def _require_regular(path: Path, name: str) -> None:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise LogError(f"{name}: is {what}: the path of a log file is due here")
    if found.st_size == 0:
        raise LogError(f"{name}:1: is empty: did the benchmark run, and was its standard output kept?")
    if found.st_size > MAX_BYTES:
        raise _too_long(name, 1, found.st_size)


def _lines(file: BinaryIO, name: str) -> Iterator[Line]:
    seen, any_text = 0, False
    for number in count(1):
        raw = file.readline(MAX_LINE_BYTES + 1)
        if not raw:
            break
        seen += len(raw)
        if number == 1:
            _refuse_packed(raw, name)
        if len(raw) > MAX_LINE_BYTES:
            raise LogError(
                f"{name}:{number}: a line of more than {MAX_LINE_BYTES // 1024} KiB: "
                "the text that the benchmark printed is due here"
            )
        if seen > MAX_BYTES:  # it grew while it was read
            raise _too_long(name, number, seen)
        printer, text = _clean(_decoded(raw, name, number))
        if text:
            any_text = True
            yield Line(name, number, text, ended=raw.endswith(b"\n"), printer=printer)
    if not any_text:
        raise LogError(f"{name}:1: holds blank lines only: did the benchmark run, and was its output kept?")


def _too_long(name: str, number: int, size: int) -> LogError:
    return LogError(
        f"{name}:{number}: {size / 1e6:,.0f} MB: a benchmark log of at most {MAX_BYTES / 1e6:.0f} MB is due here; "
        "cut it down to the tables (debug output such as NCCL INFO can go)"
    )


def _refuse_packed(raw: bytes, name: str) -> None:
    kind = next((kind for magic, kind in _PACKED.items() if raw.startswith(magic)), None)
    if kind is not None and _NOT_TEXT.search(raw[:512].decode("latin-1")):
        raise LogError(f"{name}:1: is {kind}-compressed: unpack it first")
    if raw.startswith(_UTF16):
        raise LogError(f"{name}:1: is UTF-16 text: save it as UTF-8")


def _decoded(raw: bytes, name: str, number: int) -> str:
    text = raw.decode("utf-8", errors="replace")
    if _NOT_TEXT.search(text) or text.count("\ufffd") > 0.3 * len(text):
        raise LogError(f"{name}:{number}: binary data: the text that the benchmark printed is due here")
    return text


def _clean(text: str) -> tuple[str, str]:
    """Up to three nested prefixes, and the rest without colours and overwritten progress bars."""
    whole = text = _ANSI.sub("", text).rstrip("\r\n").rpartition("\r")[2]
    for _ in range(3):
        match = _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return whole[: len(whole) - len(text)].strip(), text.strip()


def error_at(line: Line | None, path: str, message: str) -> LogError:
    """The error at ``line``, or at the start of the file where no line was seen."""
    return (line or Line(path, 1, "")).error(message)
