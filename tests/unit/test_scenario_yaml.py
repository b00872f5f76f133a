"""YAML 1.2 scalars, positions, and the limits that keep a hostile file harmless."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sim.scenario.errors import Position, ScenarioError
from sim.scenario.yaml_document import MAX_BYTES, MAX_DEPTH, Block, decode, locate, parse, plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 1e9),
        ("1E-3", 1e-3),
        ("15.6e12", 15.6e12),
        (".5", 0.5),
        ("5.", 5.0),
        ("-3", -3),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("60:30", "60:30"),
        ("2025-10-01", "2025-10-01"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("'8'", "8"),
        ('"1e9"', "1e9"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1.2.3", "1.2.3"),
        ("+", "+"),
        ("e9", "e9"),
    ],
)
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    got = plain(parse(f"a: {text}", "f"))["a"]
    assert got == value
    assert type(got) is type(value)


def test_not_a_number_is_read_as_one() -> None:
    assert math.isnan(plain(parse("a: .nan", "f"))["a"])


def test_positions_count_lines_and_columns_from_one() -> None:
    root = parse("# remark\na:\n  b: [10, 20]\n", "f.yaml")
    assert locate(root, ("a", "b", 1))[0] == Position("f.yaml", 3, 11)
    assert isinstance(root, Block)
    assert root.entries["a"].key_position == Position("f.yaml", 2, 1)


def test_an_absent_field_is_located_at_its_section() -> None:
    position, node = locate(parse("a:\n  b: 1\n", "f"), ("a", "c"))
    assert (str(position), node) == ("f:1:1", None)


def test_an_alias_is_located_where_its_value_was_written() -> None:
    assert str(locate(parse("a: &x 1\nb: *x\n", "f"), ("b",))[0]) == "f:1:4"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "1:1", "empty"),
        ("# only a remark\n", "1:1", "empty"),
        ("a: 1\n---\nb: 2\n", "2:1", "second document"),
        ("a: 1\nb: 2\na: 3\n", "3:1", "duplicate key 'a': first given at line 1"),
        ("a: {b: 1, b: 1}", "1:11", "duplicate key 'b'"),
        ("a: &x [*x]", "1:8", "alias *x"),
        ("a: *nowhere", "1:4", "alias *nowhere"),
        ("a: !!python/name:os.system x", "1:4", "tag"),
        ("a: !mine {b: 1}", "1:4", "tag"),
        ("? [1, 2]\n: 3\n", "1:3", "key"),
        ("a:\n\t- b", "2:1", "a tab: indent with spaces"),
        ("a: 'never closed\nb: 1", "1:4", "never closed"),
        ("a: [1, 2", "1:4", "never closed"),
        ("a: b: c", "1:5", "not valid YAML"),
        ("a: \x07", "1:4", "may not stand"),
        ("a: \ud800", "1:4", "may not stand"),
        (f"a: {'9' * 5000}", "1:4", "a number of 5000 characters"),
        ("x: " + "[" * (MAX_DEPTH + 1), f"1:{MAX_DEPTH + 4}", "nested deeper"),
        ("- " * 5000, None, "nested deeper"),
        ("{" * 50_000, None, ""),
        ("a: [" + "1," * 20_000 + "]", None, "more than 10,000 values"),
        ("x" * (MAX_BYTES + 1), "1:1", "longer than"),
    ],
)
def test_a_faulty_document_is_a_located_error(text: str, where: str | None, words: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "f.yaml")
    assert words in caught.value.errors[0]
    assert caught.value.errors[0].startswith(f"f.yaml:{where}: " if where else "f.yaml:1:")


def test_a_billion_laughs_are_counted_not_told() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(ScenarioError, match="aliases expanded"):
        parse("\n".join(lines), "f")


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"\xff\xfea", "1:1"),
        (b"a: 1\nb: \xe9\n", "2:4"),
        ("é: \udcff".encode("utf-8", "surrogatepass"), "1:4"),
    ],
)
def test_other_encodings_are_located_at_the_first_wrong_byte(data: bytes, where: str) -> None:
    with pytest.raises(ScenarioError, match="UTF-8") as caught:
        decode(data, "f")
    assert caught.value.errors[0].startswith(f"f:{where}: ")


def test_a_byte_order_mark_is_no_fault() -> None:
    assert decode(b"\xef\xbb\xbfa: 1", "f") == "a: 1"


def test_errors_survive_a_trip_to_another_process() -> None:
    import pickle

    with pytest.raises(ScenarioError) as caught:
        parse("a: 1\na: 2", "f")
    copy: Any = pickle.loads(pickle.dumps(caught.value))
    assert copy.errors == caught.value.errors
