"""Hundreds of broken scenario files: each is refused at its place, quickly, with exit code 2 and no traceback."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import sim
from sim import cli
from sim.cli.output import BAD_INPUT
from sim.scenario import ScenarioError, load

LOCATED = re.compile(r"^[^:]+:\d+:\d+: ")
MOST_SECONDS = 2.0

BASE: dict[str, dict[str, str]] = {
    "": {"schema": "1", "name": "sound", "model": "llama-3.1-8b"},
    "cluster": {"node": "mi300x-8x400g", "nodes": "2"},
    "training": {"sequence_length": "8192", "global_batch": "64", "precision": "bf16"},
    "parallelism": {"tp": "2"},
}


@dataclass(frozen=True)
class Mutant:
    """``files`` by name, the first one is loaded; ``words`` stand in one of the messages."""

    name: str
    files: tuple[tuple[str, bytes], ...]
    words: str


def document(field: str = "", value: str = "") -> str:
    """The sound scenario with ``section.field`` written as ``value`` (YAML text)."""
    sections = {section: dict(fields) for section, fields in BASE.items()}
    section, _, name = field.rpartition(".")
    if not section and name in sections and name:
        sections[""][name] = value
        del sections[name]
    elif name:
        sections.setdefault(section, {})[name] = value
    lines = [f"{key}: {text}" for key, text in sections.pop("").items()]
    for key, fields in sections.items():
        lines += [f"{key}:", *(f"  {inner}: {text}" for inner, text in fields.items())]
    return "\n".join(lines) + "\n"


COUNTS = [
    "0",
    "-1",
    "1.5",
    "true",
    "'8'",
    "eight",
    "[8]",
    "{a: 8}",
    "null",
    ".nan",
    ".inf",
    "1e30",
    "9" * 400,
    "8 GB",
]
QUANTITIES = [
    "600",
    "-5 W",
    "0 W",
    "1e30 W",
    "5 parsecs",
    "W",
    "[600 W]",
    "{a: 1}",
    "true",
    ".nan",
    "nan W",
    "1 2 W",
]
CHOICES = ["nonsense", "3", "true", "[bf16]", "{a: b}", "null", "''", "BF16"]
SWITCHES = ["yes", "1", "'true'", "[true]", "null", "on"]
NAMES = [
    "mi300",
    "5",
    "true",
    "[a]",
    "{a: b}",
    "null",
    "''",
    "'" + "x" * 5000 + "'",
    "../../etc/passwd",
    '"a\\0b"',
]

BY_FIELD: dict[str, list[str]] = {
    "training.sequence_length": COUNTS,
    "training.global_batch": [*COUNTS, "63", "1", "100000000"],
    "training.micro_batch": [*COUNTS, "3", "64"],
    "cluster.nodes": COUNTS,
    "cluster.gpus": [*(c for c in COUNTS if c != "null"), "17", "3"],
    "cluster.nics": [c for c in COUNTS if c != "null"],
    "parallelism.tp": [*COUNTS, "3", "16", "4096"],
    "parallelism.pp": [*COUNTS, "3", "64"],
    "parallelism.cp": [*COUNTS, "3"],
    "parallelism.cp_method": [*CHOICES, "ring", "ulysses"],
    "parallelism.hsdp_replicas": [*COUNTS, "2"],
    "training.input": ["fast", "{}", "{workers: 2}", "{samples_per_s: 0}", "{samples_per_s: 2, workers: -1}", "{bytes_per_sample: 1 MB}", "{bytes_per_sample: 3, host_bandwidth: 1 GB/s}", "{host_bandwidth: 1 GB/s}"],
    "parallelism.ep": [*COUNTS, "2"],
    "parallelism.prefetch": ["1", "-1", "x"],
    "training.precision": [*CHOICES, "int4", "nvfp4"],
    "training.attention": CHOICES,
    "training.optimizer": [*CHOICES, "sgd"],
    "parallelism.data_sharding": [*CHOICES, "zero-3", "zero-4", "hsdp"],
    "parallelism.schedule": ["1f1b", "interleaved", "zbv", "7"],
    "parallelism.sequence_parallel": SWITCHES,
    "parallelism.layout": ["[32, 1]", "[]", "[0]", "[-1]", "[x]", "automatic", "{a: 1}", "31", "[[32]]", "[true]"],
    "parallelism.overlap": ["true", "[dp]", "{dp: yes}", "{ep: true}", "{dp: 1}"],
    "training.recompute": ["some", "true", "3", "[full]", "{layers: 0}", "{layers: 33}", "{layers: x}", "{ids: [1]}", "{layers: 3, x: 1}"],
    "training.dropout": ["1", "-0.1", "x", "true", ".nan", "10%"],
    "training.lora": ["16", "{}", "{rank: 0}", "{rank: 5000}", "{rank: 4, targets: []}", "{rank: 4, targets: [mlp]}", "{rank: 4, targets: qkv}", "{rank: 4, targets: [qkv, qkv]}"],
    "cluster.node": NAMES,
    "cluster.stack": [n for n in NAMES if n != "null"],
    "cluster.nic": [*(n for n in NAMES if n != "null"), "cx9"],
    "cluster.power_cap": [*QUANTITIES, "751 W", "20 kW", "600 GB"],
    "cluster.nic_bandwidth": ["400", "400 GT/s", "400 gbps", "0 Gbps", "-1 Gbps", "x"],
    "cluster.gpu": ["mi300x", "{hbm: 192}", "{hbm: 0 GB}", "{cus: 3}", "{compute_units: 0}", "{peak_clock: 2 THz}", "[1]"],
    "cluster.scale_up": ["fast", "{kind: torus}", "{kind: switch}", "{domain_gpus: 0}", "{domain_gpus: x}", "{latency: 5}", "{latency: 1 h}"],
    "cluster.fabric": ["clos", "{kind: x}", "{oversubscription: [7]}", "{oversubscription: [0]}", "{oversubscription: 1}", "{tiers: 2, oversubscription: [1]}"],
    "cluster.pools": ["[]"],
    "model": [*NAMES, "./config.json", "{}", "{layers: 2}", "{layers: 2, hidden: 10, ffn: 8, heads: 3, vocab: 9}", "{base: gpt-9}"],
    "name": ["5", "''", "[a]", "null"],
    "schema": ["2", "one", "null", "[1]"],
    "seed": ["-1", "x", "1.5", "true", "4294967296"],
    "metrics": ["palm", "{mfu_convention: hfu}", "{mfu: palm}"],
    "cluster": ["5", "[a]", "null", "text", "{}"],
    "training": ["5", "[a]", "null", "text", "{}"],
    "parallelism": ["5", "[a]", "null", "text", "{dp: 8}", "{zero: 1}"],
    "job": ["{tokens: 1}"],
    "cost": ["{}"],
    "data": ["x"],
    "clutser": ["{}"],
    "seq_len": ["4"],
    "training.seq_length": ["4"],
    "parallelism.tensor_model_parallel_size": ["2"],
    "parallelism.use_torch_fsdp2": ["maybe"],
}  # fmt: skip

SOUND = document()
LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
)
TEXTS: dict[str, tuple[str, str]] = {
    "empty": ("", "empty"),
    "blank": ("\n\n   \n", "empty"),
    "remark": ("# nothing here", "empty"),
    "list": ("- model: x", "a mapping with model"),
    "scalar": ("hello", "a mapping with model"),
    "null": ("~", "a mapping with model"),
    "number": ("42", "a mapping with model"),
    "two documents": (SOUND + "---\n" + SOUND, "second document"),
    "duplicate section": (SOUND + "cluster: {}\n", "duplicate key 'cluster'"),
    "duplicate field": (SOUND.replace("  tp: 2\n", "  tp: 2\n  tp: 4\n"), "duplicate key 'tp'"),
    "tab": (SOUND.replace("  tp", "\ttp"), "a tab"),
    "unclosed single quote": (SOUND.replace("sound", "'sound"), "never closed"),
    "unclosed double quote": (SOUND.replace("sound", '"sound'), "never closed"),
    "unclosed list": (SOUND + "notes: [1, 2", "never closed"),
    "unclosed mapping": (SOUND + "notes: {a: 1", "never closed"),
    "stray bracket": (SOUND + "]", "not valid YAML"),
    "colon in text": (SOUND.replace("sound", "so: und"), "not valid YAML"),
    "bad escape": (SOUND.replace("sound", '"\\q"'), "not valid YAML"),
    "bad indentation": (SOUND.replace("  nodes", " nodes"), "not valid YAML"),
    "missing colon": (SOUND.replace("tp: 2", "tp 2"), "a mapping of fields"),
    "directive": ("%YAML 9.9\n---\n" + SOUND, "not valid YAML"),
    "at sign": (SOUND.replace("sound", "@sound"), "not valid YAML"),
    "aliases without end": (LAUGHS, "aliases expanded"),
    "self reference": ("model: &m {a: *m}\n", "alias *m"),
    "unknown alias": (SOUND.replace("sound", "*sound"), "alias *sound"),
    "deep lists": ("notes: " + "[" * 900, "nested deeper"),
    "deeper lists": ("notes: " + "[" * 400_000, ""),
    "deep mappings": ("{a: " * 400, "nested deeper"),
    "deep sequences": ("- " * 20_000, "nested deeper"),
    "deep keys": ("? " * 20_000, "nested deeper"),
    "many keys": ("".join(f"k{i}: 1\n" for i in range(60_000)), "more than 10,000 values"),
    "many entries": ("notes: [" + "1," * 300_000 + "]", "more than 10,000 values"),
    "long key": ("x" * 900_000 + ": 1", ""),
    "long number": (document("seed", "1" * 900_000), "no field takes one"),
    "too large": ("#" * 1_000_001, "larger than"),
    "python object": (SOUND.replace("sound", "!!python/object/apply:os.system [ls]"), "tag"),
    "own tag": (SOUND.replace("sound", "!secret x"), "tag"),
    "binary tag": (SOUND.replace("sound", "!!binary aGk="), "tag"),
    "merge key": ("base: &b {tp: 2}\n" + SOUND.replace("  tp: 2", "  <<: *b"), "merge keys"),
    "list as key": ("? [a, b]\n: 1\n" + SOUND, "a key must be a field name"),
    "dotted key": (SOUND + "met.rics: 1\n", "unknown field"),
    "number as key": (SOUND + "5: 1\n", "unknown field '5'"),
    "empty key": (SOUND + "'': 1\n", "unknown field ''"),
    "null as key": (SOUND + "~: 1\n", "unknown field '~'"),
    "control character": (SOUND.replace("sound", "so\x07und"), "may not stand"),
    "no model": (SOUND.replace("model: llama-3.1-8b\n", ""), "model: is missing"),
    "no node": (SOUND.replace("  node: mi300x-8x400g\n", ""), "cluster.node: is missing"),
    "no precision": (SOUND.replace("  precision: bf16\n", ""), "training.precision: is missing"),
    "windows line ends": (SOUND.replace("2\n", "x\n").replace("\n", "\r\n"), "a whole number"),
}  # fmt: skip

BYTES: dict[str, tuple[bytes, str]] = {
    "utf-16": (SOUND.encode("utf-16"), "UTF-8"),
    "latin-1": (SOUND.replace("sound", "sönd").encode("latin-1"), "UTF-8"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(range(256)), "UTF-8"),
    "zeros": (b"\0" * 1000, "may not stand"),
    "every byte": (bytes(range(256)) * 64, "UTF-8"),
    "cut in a character": ("name: é".encode()[:-1], "UTF-8"),
    "elf": (b"\x7fELF\x02\x01\x01" + b"\0" * 64, "may not stand"),
}

FILES: dict[str, tuple[dict[str, str], str]] = {
    "extends itself": ({"a.yaml": "extends: a.yaml\n"}, "a loop: a.yaml -> a.yaml"),
    "extends in a ring": ({"a.yaml": "extends: b.yaml", "b.yaml": "extends: a.yaml"}, "a loop"),
    "extends a later ring": ({"a.yaml": "extends: b.yaml", "b.yaml": "extends: c.yaml", "c.yaml": "extends: b.yaml"}, "a loop"),
    "extends nothing": ({"a.yaml": "extends: nowhere.yaml"}, "no such file"),
    "extends a folder": ({"a.yaml": "extends: ."}, "is a folder"),
    "extends a list": ({"a.yaml": "extends: [b.yaml]"}, "the path of one scenario file"),
    "extends a number": ({"a.yaml": "extends: 5"}, "the path of one scenario file"),
    "extends null": ({"a.yaml": "extends:"}, "the path of one scenario file"),
    "extends a device": ({"a.yaml": "extends: /dev/zero"}, "no such file"),
    "extends a long name": ({"a.yaml": f"extends: {'x' * 5000}"}, "File name too long"),
    "extends a broken file": ({"a.yaml": "extends: b.yaml", "b.yaml": "model: [1"}, "never closed"),
    "extends a wrong file": ({"a.yaml": "extends: b.yaml", "b.yaml": document("parallelism.tp", "x")}, "'x': a whole number"),
    "extends and breaks": ({"a.yaml": "extends: b.yaml\nparallelism: {tp: 3}\n", "b.yaml": SOUND}, "must divide heads"),
    "extends and removes": ({"a.yaml": "extends: b.yaml\nmodel: null\n", "b.yaml": SOUND}, "model: is missing"),
    "extends and flattens": ({"a.yaml": "extends: b.yaml\ncluster: 5\n", "b.yaml": SOUND}, "a mapping of fields"),
    "extends a list document": ({"a.yaml": "extends: b.yaml\n", "b.yaml": "- 1"}, "a mapping with model"),
    "a long chain": (
        {f"a{i}.yaml": f"extends: a{i + 1}.yaml" for i in range(20)} | {"a20.yaml": SOUND},
        "chain of more than 16 files",
    ),
}  # fmt: skip


def mutants() -> list[Mutant]:
    found = []
    for field, values in BY_FIELD.items():
        for value in values:
            short = value if len(value) < 30 else f"{value[:20]} ({len(value)})"
            found.append(
                Mutant(
                    f"{field}={short}",
                    (("a.yaml", document(field, value).encode()),),
                    field.rpartition(".")[2],
                )
            )
    found += [
        Mutant(name, (("a.yaml", text.encode("utf-8")),), words) for name, (text, words) in TEXTS.items()
    ]
    found += [Mutant(name, (("a.yaml", data),), words) for name, (data, words) in BYTES.items()]
    for name, (files, words) in FILES.items():
        found.append(Mutant(name, tuple((file, text.encode()) for file, text in files.items()), words))
    return found


MUTANTS = mutants()


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len({mutant.files for mutant in MUTANTS}) == len(MUTANTS) > 200


def test_the_unmutated_scenario_is_sound(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SOUND)
    assert load(tmp_path / "a.yaml").dp == 8


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutated_scenario_is_refused_at_its_place(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in mutant.files:
        (tmp_path / name).write_bytes(data)
    path = tmp_path / mutant.files[0][0]

    start = time.process_time()
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert time.process_time() - start < MOST_SECONDS
    errors = caught.value.errors
    assert errors
    assert all(LOCATED.match(error) for error in errors), errors
    assert all(len(error) < 1000 and "\n" not in error for error in errors), errors
    assert any(mutant.words in error for error in errors), errors

    def too_far(scenario: object) -> None:
        raise AssertionError("a broken scenario was simulated")

    monkeypatch.setattr(sim, "simulate", too_far, raising=False)
    monkeypatch.setattr(sys, "argv", ["sim", "run", str(path)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.err.splitlines() == list(errors)
    assert not shown.out
