"""YAML is read with its places, and nothing in a file can make the reader crash or guess."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.errors import UsageError
from fieldmark.source_lines import Located, read_yaml
from fieldmark.source_lines.yaml_reader import _PlainLoader, compose, plain_value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.yaml"


def told(file: Path, text: str, dialect: str = "1.2") -> str:
    file.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(UsageError) as caught:
        read_yaml(file, dialect)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(file))


# words without quotes: spelling → its value in YAML 1.2, its value in YAML 1.1
WORDS = [
    ("no", "no", False),
    ("yes", "yes", True),
    ("on", "on", True),
    ("Off", "Off", False),
    ("y", "y", "y"),
    ("true", True, True),
    ("~", None, None),
    ("", None, None),
    ("null", None, None),
    ("010", 10, 8),
    ("0o10", 8, "0o10"),
    ("0x1F", 31, 31),
    ("1_000", "1_000", 1000),
    ("1e-5", 1e-5, "1e-5"),
    ("1.0e-5", 1e-5, 1e-5),
    ("-.5", -0.5, "-.5"),
    (".inf", float("inf"), float("inf")),
    ("-.inf", float("-inf"), float("-inf")),
    ("+12", 12, 12),
    ("12:30:45", "12:30:45", 45045),
    ("2^-15", "2^-15", "2^-15"),
    ("=", "=", "="),
    ("inf", "inf", "inf"),
    ("1.", 1.0, 1.0),
    (".", ".", "."),
]


@pytest.mark.parametrize(("text", "new", "old"), WORDS)
def test_words_mean_what_their_version_of_yaml_says(
    file: Path, text: str, new: object, old: object
) -> None:
    file.write_text(f"a: {text}\nb: '{text}'\n")
    for dialect, value in (("1.2", new), ("1.1", old)):
        data = read_yaml(file, dialect).data
        assert data == {"a": value, "b": text}
        assert type(data["a"]) is type(value)


def test_dates_are_dates_only_where_pyyaml_says_so(file: Path) -> None:
    file.write_text("a: 2024-05-01\n")
    assert read_yaml(file).data == {"a": "2024-05-01"}
    assert read_yaml(file, "1.1").data == yaml.full_load("a: 2024-05-01")


@given(st.text(alphabet="0123456789_-+.:eExXoOnNyYaAtTrRuUfFlLsS~<=", max_size=8))
def test_every_plain_word_is_what_pyyaml_makes_of_it(text: str) -> None:
    try:
        node = yaml.compose(f"[{text}]", Loader=yaml.SafeLoader)
        is_one_word = isinstance(node.value[0], yaml.ScalarNode) and node.value[0].value == text
    except (yaml.YAMLError, IndexError, AttributeError):
        return
    if not is_one_word or text in ("<<", "="):
        return
    try:
        expected = yaml.full_load(f"[{text}]")[0]
    except ValueError:
        with pytest.raises(ValueError):
            plain_value(text, "1.1")
        return
    assert repr(plain_value(text, "1.1")) == repr(expected)


def _some_yaml(rng: random.Random, depth: int = 0) -> object:
    kind = rng.choice(["map", "list", "word", "word"] if depth < 3 else ["word"])
    if kind == "map":
        return {f"k{i}": _some_yaml(rng, depth + 1) for i in range(rng.randint(0, 4))}
    if kind == "list":
        return [_some_yaml(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return rng.choice(["a", "no", "1e3", "", "two\nlines", 5, 2.5, None, True, "#x", "é", "- x"])


@pytest.mark.parametrize("seed", range(20))
def test_values_are_pyyamls_and_lines_are_where_the_keys_stand(file: Path, seed: int) -> None:
    rng = random.Random(seed)
    made = {f"top{i}": _some_yaml(rng) for i in range(5)}
    text = yaml.safe_dump(made, allow_unicode=True, default_flow_style=rng.choice([None, False]))
    file.write_text(text, encoding="utf-8")
    located = read_yaml(file, "1.1")
    assert located.data == made == yaml.full_load(text)
    rows = text.splitlines()
    for key, line in located.lines.items():
        if isinstance(key[-1], str):
            assert f"{key[-1]}:" in rows[line - 1]


def test_anchors_and_merges_work_and_own_keys_win(file: Path) -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  z: 3\nd: *a\n"
    file.write_text(text)
    for dialect in ("1.1", "1.2"):
        located = read_yaml(file, dialect)
        assert located.data["c"] == {"x": 1, "y": 1, "z": 3} == yaml.full_load(text)["c"]
        assert located.data["d"] == located.data["a"]
        assert located.data["d"] is not located.data["a"]
        assert [located.line(("c", key)) for key in "xyz"] == [1, 1, 5]


INVALID = [
    ("a: 1\nb: {x: 1, x: 2}\n", 2, "duplicate key 'x': it is given twice: keep one"),
    ("a: &a\n  - *a\n", 1, "an anchor contains itself"),
    ("a: &a {b: *a}\n", 1, "an anchor contains itself"),
    ("a: *x\n", 1, "found undefined alias 'x'"),
    ("a: &x 1\nb: &x 2\n", 2, "this anchor's name is used above: rename one"),
    ("a: 1\n<<: 5\n", 2, "`<<` needs a mapping, or a list of them"),
    ("? [a]\n: 1\n", 1, "a key is a list or mapping: text is expected"),
    ("a: 'x\nb: 1\n", 1, "a quote is opened here and not closed"),
    (f"b: {'x' * 2000}\na: @x\n", 2, "'@' cannot begin a value: quote the text"),
    ("a: @x\n", 1, "'@' cannot begin a value: quote the text"),
    ("a:\n\tb: 1\n", 2, "a tab: spaces are expected"),
    ("a: " + "9" * 5000, 1, f"'{'9' * 40}'…: too many digits"),
    ("a: 1\n---\nb: 2\n", 2, "a second document begins here: one `---` part is expected"),
]
TAGS = [
    "!function x.y",
    "!!python/object/apply:os.system [x]",
    "!!python/name:os.system",
    "!!set {x}",
]
DEEP = [
    ("a: " + "[" * 200_000, 1),
    ("a: " + "[" * 101 + "]" * 101, 1),
    ("- " * 50_000 + "x", 1),
    ("\n".join(" " * i + "a:" for i in range(2000)), 101),
]
NEEDED = "a mapping of `key: value` lines is needed."
FAULTS = [
    *((text, f":{line}  is not valid YAML: {words}.") for text, line, words in INVALID),
    *((f"a: {tag}", f":1  is not valid YAML: the tag '{tag.split()[0]}' is not allowed:"
       " plain values are expected.") for tag in TAGS),
    *((text, f":{line}  is nested more than 100 deep: write it flatter.") for text, line in DEEP),
    ("a: 1\nb: \x00\n", ":2  contains the unprintable character #x0000: plain text is expected."),
    ("---\n...\n", f":1  is empty: {NEEDED}"),
    ("just words\n", f":1  contains a single value: {NEEDED}"),
]  # fmt: skip


@pytest.mark.parametrize("dialect", ["1.1", "1.2"])
@pytest.mark.parametrize(("text", "line"), FAULTS, ids=range(len(FAULTS)))
def test_each_fault_is_one_line(file: Path, text: str, line: str, dialect: str) -> None:
    assert told(file, text, dialect) == line


def test_a_date_that_is_none_is_told_with_its_line(file: Path) -> None:
    assert told(file, "a: 1\nb: 2024-99-99\n", "1.1") == (
        ":2  is not valid YAML: '2024-99-99': month must be in 1..12."
    )


def _laughs(levels: int, body: str) -> str:
    rows = [f"a0: &a0 {body}"]
    for level in range(1, levels):
        rows.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 9) + "]")
    return "\n".join(rows)


@pytest.mark.parametrize("dialect", ["1.1", "1.2"])
def test_a_billion_laughs_are_refused(file: Path, dialect: str) -> None:
    line = told(file, _laughs(12, "[lol, lol]"), dialect)
    assert line.endswith("is not valid YAML: contains more than 200,000 values (anchors count).")


def test_merges_of_merges_do_not_multiply(file: Path) -> None:
    rows = ["a0: &a0 {k: 1}"]
    for level in range(1, 40):
        rows.append(f"a{level}: &a{level} {{<<: [" + ", ".join([f"*a{level - 1}"] * 9) + "]}")
    file.write_text("\n".join(rows))
    assert read_yaml(file).data["a39"] == {"k": 1}


def test_the_same_value_twice_is_a_note_where_pyyaml_reads(file: Path) -> None:
    file.write_text("a: x\nb: 1\na: x\n")
    located = read_yaml(file, "1.1")
    assert (located.data, located.line(("a",))) == ({"a": "x", "b": 1}, 3)
    assert located.notes == (f"{file}:3  key 'a' is given twice with the same value.",)
    assert "duplicate key 'a'" in told(file, "a: x\na: x\n", "1.2")
    assert "duplicate key 'a'" in told(file, "a: [1]\na: [1]\n", "1.1")


def test_tags_that_are_expected_get_the_text_the_file_and_the_line(file: Path) -> None:
    file.write_text("a: 1\nb: [x, !mark one.two]\n")
    assert read_yaml(file, "1.1", {"!mark": lambda *about: about}).data == {
        "a": 1,
        "b": ["x", ("one.two", file, 2)],
    }
    file.write_text("a: !mark {x: 1}\n")
    with pytest.raises(UsageError, match="the tag '!mark' needs text, not a list or mapping"):
        read_yaml(file, "1.1", {"!mark": lambda *about: about})


def test_only_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(UsageError, match="is a device or a pipe; a file is needed"):
        read_yaml(tmp_path / "pipe.yaml")
    with pytest.raises(UsageError, match="is a folder; a file is needed"):
        read_yaml(tmp_path)
    (tmp_path / "huge.yaml").write_bytes(b"a: 1\n" * 1_200_000)
    with pytest.raises(UsageError, match=r"has 6 MB: at most 5 MB are expected"):
        read_yaml(tmp_path / "huge.yaml")


def test_windows_line_ends_and_a_byte_order_mark_do_not_move_lines(file: Path) -> None:
    file.write_bytes("\ufeffa: é\r\nb:\r\n  - 1\r\n  - c: 2\r\n".encode())
    located = read_yaml(file)
    assert located.data == {"a": "é", "b": [1, {"c": 2}]}
    assert located.line(("b", 1, "c")) == 4


@pytest.mark.parametrize("text", ["a: [1, {b: 'x'}]\nc: |\n  d\n   e\n", "a: >-\n  b\n\n  c\n"])
def test_both_parsers_make_the_same_nodes(text: str) -> None:
    def shape(node: yaml.Node) -> object:
        value = node.value
        if isinstance(node, yaml.MappingNode):
            value = [(shape(key), shape(each)) for key, each in node.value]
        elif isinstance(node, yaml.SequenceNode):
            value = [shape(each) for each in node.value]
        return node.tag, value, node.start_mark.line

    fast, plain = compose(Path(), text), _PlainLoader(text).get_single_node()
    assert fast is not None and plain is not None
    assert shape(fast) == shape(plain)


def test_a_key_from_another_file_names_that_file() -> None:
    lines = {("a",): 3, ("b",): 7, ("b", "c"): 8}
    located = Located(Path("x.yaml"), {"a": 1, "b": {"c": 2}}, lines, {"b": Path("t/y.yaml")})
    assert located.where(("a",)) == "x.yaml:3"
    assert located.where(("b", "c", "d")) == "t/y.yaml:8"
    assert located.where(()) == "x.yaml"
    assert located.file(("b", "c")) == Path("t/y.yaml")
