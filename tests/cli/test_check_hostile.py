"""A folder that means harm: does `fieldmark check` say so in a line each, and survive?

Every case writes its files into a folder of its own and names the one line that must be told.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.cli import main

GOOD = """\
task: NAME
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_text: question
doc_to_target: answer
"""
Case = tuple[Callable[[Path], None], str]


def good(name: str = "birds", **keys: str) -> str:
    """A task file without fault; keys given here take the place of its own."""
    lines = [line for line in GOOD.splitlines() if line.partition(":")[0] not in keys]
    lines += [f"{key}: {value}" for key, value in keys.items()]
    return "\n".join(lines).replace("NAME", name) + "\n"


def files(**texts: str | bytes) -> Callable[[Path], None]:
    """Writes `a_yaml="…"` as `a.yaml`; two lines below a name are a slash."""

    def write(folder: Path) -> None:
        for name, text in texts.items():
            stem, _, ending = name.replace("__", "/").rpartition("_")
            path = folder / (f"{stem}.{ending}" if ending else stem)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


def with_code(code: str, key: str = "doc_to_text") -> Callable[[Path], None]:
    """A task whose text is made by `utils.text`, and the file behind it."""
    return files(birds_yaml=good(**{key: "!function utils.text"}), utils_py=code)


def chain(n: int, last: str) -> Callable[[Path], None]:
    """`birds.yaml` includes 1.yaml, that 2.yaml, …; the n-th holds `last`."""

    def write(folder: Path) -> None:
        (folder / "birds.yaml").write_text("include: level1\ntask: birds\n")
        for i in range(1, n):
            (folder / f"level{i}").write_text(f"include: level{i + 1}\n")
        (folder / f"level{n}").write_text(last)

    return write


def links_out(folder: Path) -> None:
    """The code lies outside and is reached through a link."""
    outside = folder.parent / "outside.py"
    outside.write_text("def text(doc):\n    return 'q'\n")
    (folder / "utils.py").symlink_to(outside)
    (folder / "birds.yaml").write_text(good(doc_to_text="!function utils.text"))


def includes_out(folder: Path) -> None:
    (folder.parent / "secret.yaml").write_text(good())
    (folder / "birds.yaml").write_text("include: ../secret.yaml\ntask: birds\n")


def includes_out_by_link(folder: Path) -> None:
    (folder.parent / "secret.yaml").write_text(good())
    (folder / "base").symlink_to(folder.parent / "secret.yaml")
    (folder / "birds.yaml").write_text("include: base\ntask: birds\n")


def bomb(n: int = 9) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, n)]
    return "\n".join(rows) + "\n"


def include_bomb(folder: Path) -> None:
    """Two files below each file: 2 to the 25th of them, if all were opened."""
    (folder / "birds.yaml").write_text("include: [level0, level0]\ntask: birds\n")
    for i in range(25):
        (folder / f"level{i}").write_text(f"include: [level{i + 1}, level{i + 1}]\n")
    (folder / "level25").write_text(good() + "full_docs: true\n")


def group_bomb(folder: Path) -> None:
    """Ten groups in each group, ten levels deep."""
    for i in range(10):
        members = ", ".join([f"group{i + 1}"] * 10)
        (folder / f"group{i}.yaml").write_text(f"group: group{i}\ntask: [{members}]\n")
    (folder / "group10.yaml").write_text("group: group10\ntask: [birds]\n")
    (folder / "birds.yaml").write_text(good() + "full_docs: true\n")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "birds.yaml")


def linked_task(folder: Path) -> None:
    (folder.parent / "secret.yaml").write_text(good())
    (folder / "birds.yaml").symlink_to(folder.parent / "secret.yaml")


def broken_link(folder: Path) -> None:
    (folder / "birds.yaml").symlink_to(folder / "gone.yaml")


def circle_of_folders(folder: Path) -> None:
    (folder / "more").symlink_to(folder)
    (folder / "birds.yaml").write_text(good() + "full_docs: true\n")


def odd_name(folder: Path) -> None:
    (folder / "a\nb\x1b[31m.yaml").write_text("task: [\n")


WRITES_EVERYWHERE = """\
import os
for n in range(3, 64):
    try:
        os.write(n, b'[]\\nnonsense\\n')
    except OSError:
        pass
def txet(doc):
    return ''
"""
BOMBS = "{{ 9 ** 9999999999 }}{{ 'a' * 10 ** 12 }}{{ 'a' | center(10 ** 12) }}"
QUESTION = "def text(doc):\n    return doc['question']\n"
CASES: dict[str, Case] = {
    "includes itself": (
        files(birds_yaml="include: birds.yaml\ntask: birds\n"),
        r"error  birds.yaml:1: files include each other in a circle: birds.yaml → birds.yaml.",
    ),
    "circle of three": (
        files(birds_yaml="include: b\ntask: birds\n", b_="include: c", c_="include: birds.yaml"),
        r"error  c:1: files include each other in a circle: birds.yaml → b → c → birds.yaml.",
    ),
    "chain without end": (
        chain(60, good()),
        r"error  level\d+:1: more than \d+ files include each other: .*",
    ),
    "include is missing": (
        files(birds_yaml="include: templete\ntask: birds\n", template_=good()),
        r"error  birds.yaml:1: include 'templete' does not exist .* Did you mean 'template'\?",
    ),
    "include is a list of nothing": (
        files(birds_yaml="include: [null]\ntask: birds\n"),
        r"error  birds.yaml:1: include = None: the name of a file is expected.",
    ),
    "include leads out": (
        includes_out,
        r"error  birds.yaml:1: include '../secret.yaml' lies outside the folders .*",
    ),
    "include leads out by a link": (
        includes_out_by_link,
        r"error  birds.yaml:1: include 'base' lies outside the folders .*",
    ),
    "include of the password file": (
        files(birds_yaml="include: /etc/passwd\ntask: birds\n"),
        r"error  birds.yaml:1: include '/etc/passwd' lies outside the folders .*",
    ),
    "code by a link": (
        links_out,
        r"error  birds.yaml:6: !function utils.text lies in .*outside.py, outside the folders .*",
    ),
    "code by a path": (
        files(birds_yaml=good(doc_to_text="!function ../outside.text")),
        r"error  birds.yaml:6: there is no \.\./outside.py .*",
    ),
    "code of an installed package": (
        files(birds_yaml=good(doc_to_text="!function os.system")),
        r"error  birds.yaml:6: there is no os.py in .*",
    ),
    "function without a file": (
        files(birds_yaml=good(doc_to_text="!function text")),
        r"error  birds.yaml:6: is not valid YAML: .*`!function` needs a file and a name in it.*",
    ),
    "function misspelt": (
        with_code("def txet(doc):\n    return ''\n"),
        r"error  birds.yaml:6: utils.py has no 'text'. Did you mean 'txet'\?",
    ),
    "function on a list": (
        files(birds_yaml=good(doc_to_text="!function [a, b]")),
        r"error  birds.yaml:6: is not valid YAML: the tag '!function' needs text, .*",
    ),
    "function takes too little": (
        with_code("def text():\n    return ''\n"),
        r"error  birds.yaml:6: doc_to_text 'utils.text' takes 0 arguments and is called with 1: .*",
    ),
    "tag that runs code": (
        files(birds_yaml=good(doc_to_text="!!python/object/apply:os.system ['true']")),
        r"error  birds.yaml:6: is not valid YAML: the tag .*python/object/apply:os.system.*",
    ),
    "code raises": (
        with_code("raise RuntimeError('not today')\n"),
        r"error  birds.yaml:6: .*utils.py:1 RuntimeError: not today.",
    ),
    "code raises no Exception": (
        with_code("class Odd(BaseException): pass\nraise Odd('gone')\n"),
        r"error  birds.yaml:6: (importing utils.py ended its process .*|.*utils.py:2 Odd: gone.)",
    ),
    "code has a syntax error": (
        with_code("def text(doc:\n"),
        r"error  birds.yaml:6: .*utils.py:1 SyntaxError: .*",
    ),
    "code is binary": (
        files(birds_yaml=good(doc_to_text="!function utils.text"), utils_py=b"\x00\xff\xfe\x01"),
        r"error  birds.yaml:6: .*utils.py.* (SyntaxError|ValueError): .*",
    ),
    "code ends the program": (
        with_code("import sys\nsys.exit(3)\n"),
        r"error  birds.yaml:6: .*utils.py:2 the code ended the program \(SystemExit: 3\).",
    ),
    "code kills its process": (
        with_code("import os\nos._exit(7)\n"),
        r"error  birds.yaml:6: importing utils.py ended its process \(exit code 7\).",
    ),
    "code kills its process by a signal": (
        with_code("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"),
        r"error  birds.yaml:6: importing utils.py ended its process .*",
    ),
    "code never ends": (
        with_code("while True:\n    pass\n"),
        r"error  birds.yaml:6: importing utils.py took longer than 2 s.",
    ),
    "code recurses": (
        with_code("def f(): f()\nf()\n"),
        r"error  birds.yaml:6: .*utils.py:1 RecursionError: .*",
    ),
    "code calls out": (
        with_code("import socket\nsocket.create_connection(('192.0.2.1', 80), 1)\n"),
        r"warning  birds.yaml:6: .*utils.py:2 uses the network when it is imported, which .*",
    ),
    "code asks for an address": (
        with_code("import urllib.request\nurllib.request.urlopen('http://example.org')\n"),
        r"warning  birds.yaml:6: .*utils.py:2 uses the network when it is imported, which .*",
    ),
    "code starts a program": (
        with_code("import subprocess\nsubprocess.run(['true'])\n"),
        r"warning  birds.yaml:6: .*utils.py:2 starts a program when it is imported, which .*",
    ),
    "code forks": (
        with_code("import os\nos.fork()\n"),
        r"warning  birds.yaml:6: .*utils.py:2 starts a program when it is imported, which .*",
    ),
    "code talks to whoever checks it": (
        with_code(WRITES_EVERYWHERE),
        r"error  birds.yaml:6: utils.py has no 'text'. Did you mean 'txet'\?",
    ),
    "code wants a key": (
        with_code("import os\nif 'X' not in os.environ: raise ValueError('no API_KEY')\n"),
        r"warning  birds.yaml:6: .*utils.py:2 ValueError: no API_KEY.",
    ),
    "code wants a package": (
        with_code("import no_such_thing_at_all\n" + QUESTION),
        r"warning  birds.yaml:6: needs the package 'no_such_thing_at_all', .*",
    ),
    "bomb of includes": (
        include_bomb,
        r"note  level25:7: full_docs is never read.",
    ),
    "bomb of groups": (
        group_bomb,
        r"note  birds.yaml:7: full_docs is never read.",
    ),
    "template that is deep": (
        files(birds_yaml=good(description='"{{ ' + "(" * 5000 + "1" + ")" * 5000 + ' }}"')),
        r"error  birds.yaml:7: description: the template .* is nested too deep.",
    ),
    "template without end": (
        files(birds_yaml=good(description=f"'{'{{ q }}' * 20_000}'")),
        r"error  birds.yaml:7: description: the template .* has 140,000 characters: expected .*",
    ),
    "template that is a bomb": (
        files(birds_yaml=good(description=f'"{BOMBS}"')),
        "",  # nothing is computed before there is a document
    ),
    "key that moves the cursor": (
        files(birds_yaml=good() + '"\\e[2J\\nerror  all is lost": 1\n'),
        r"error  birds.yaml:7: key '\\x1b\[2J\\nerror  all is lost' is not known.",
    ),
    "name that moves the cursor": (
        odd_name,
        r"error  a\\nb\\x1b\[31m.yaml:\d: is not valid YAML: .*",
    ),
    "pipe": (pipe, r"error  birds.yaml is a device or a pipe; a file is needed."),
    "task by a link": (linked_task, r"error  birds.yaml lies outside the folders .*"),
    "broken link": (broken_link, r"error  birds.yaml is a link to a file that does not exist."),
    "circle of folders": (circle_of_folders, r"note  birds.yaml:7: full_docs is never read."),
    "keys that are no text": (
        files(birds_yaml=good() + "1: 2\n"),
        r"error  birds.yaml:7: key 1 is not text: put it in quotes.",
    ),
    "key stands twice": (
        files(birds_yaml=good() + "test_split: test\n"),
        r"error  birds.yaml:7: is not valid YAML: duplicate key 'test_split': .*",
    ),
    "key unknown": (
        files(birds_yaml=good(metric_lists="[]")),
        r"error  birds.yaml:7: key 'metric_lists' is not known. Did you mean 'metric_list'\?",
    ),
    "key of a template unknown": (
        files(base_yaml="test_splits: train\ndataset_path: json\n"),
        r"error  base.yaml:1: key 'test_splits' is not known. Did you mean 'test_split'\?",
    ),
    "keys of both forms": (
        files(birds_yaml=good(probe="{classifier: ridge}")),
        r"error  birds.yaml:7: key 'probe' is fieldmark's and key 'dataset_path' .*",
    ),
    "YAML bomb": (
        files(birds_yaml=bomb() + good()),
        r"error  birds.yaml:\d+: is not valid YAML: contains more than 200,000 values .*",
    ),
    "anchor in itself": (
        files(birds_yaml=good(metadata="&a [*a]")),
        r"error  birds.yaml:7: is not valid YAML: an anchor contains itself.",
    ),
    "merge of itself": (
        files(birds_yaml="a: &a\n  <<: *a\n" + good()),
        r"error  birds.yaml:1: .*",
    ),
    "two documents": (
        files(birds_yaml=good() + "---\n" + good()),
        r"error  birds.yaml:7: is not valid YAML: a second document begins here: .*",
    ),
    "nested deep": (
        files(birds_yaml=good(metadata="[" * 50_000 + "]" * 50_000)),
        r"error  birds.yaml:7: is nested more than 100 deep: .*",
    ),
    "huge": (
        files(birds_yaml=good(description='"' + "x" * 6_000_000 + '"')),
        r"error  birds.yaml has 6 MB: at most 5 MB are expected.",
    ),
    "not UTF-8": (
        files(birds_yaml=good().encode() + b"description: \xe9t\xe9\n"),
        r"error  birds.yaml:7: is not UTF-8 text \(byte 0xe9\): .*",
    ),
    "binary": (
        files(birds_yaml=bytes(range(256))),
        r"error  birds.yaml:\d+: .*",
    ),
    "UTF-16": (
        files(birds_yaml=good().encode("utf-16")),
        r"error  birds.yaml:1: is not UTF-8 text .*",
    ),
    "null byte": (
        files(birds_yaml=good().encode() + b"description: a\x00b\n"),
        r"error  birds.yaml:7: contains the unprintable character #x0000: .*",
    ),
    "tab": (
        files(birds_yaml=good() + "metadata:\n\tversion: 1\n"),
        r"error  birds.yaml:8: is not valid YAML: a tab: spaces are expected.",
    ),
    "empty": (
        files(birds_yaml=""),
        r"error  birds.yaml:1: is empty: .*",
    ),
    "a list": (
        files(birds_yaml="- task: birds\n"),
        r"error  birds.yaml:1: contains a list: .*",
    ),
    "null item of metric_list": (
        files(birds_yaml=good(metric_list="[null, {metric: exact_match}]")),
        r"error  birds.yaml:7: metric_list\[0\] is empty: .*",
    ),
    "null item of filter_list": (
        files(birds_yaml=good(filter_list="[null]")),
        r"error  birds.yaml:7: filter_list\[0\] is empty: .*",
    ),
    "metric_list is null": (files(birds_yaml=good(metric_list="null")), ""),
    "metric_list is a word": (
        files(birds_yaml=good(metric_list="exact_match")),
        r"error  birds.yaml:7: metric_list = 'exact_match': expected a list.",
    ),
    "metric unknown": (
        files(birds_yaml=good(metric_list="[{metric: exact_mach}]")),
        r"error  birds.yaml:7: .*'exact_mach' is not known. Did you mean 'exact_match'\?.*",
    ),
    "aggregation unknown": (
        files(birds_yaml=good(metric_list="[{metric: exact_match, aggregation: meen}]")),
        r"error  birds.yaml:7: aggregation 'meen' is not known. Did you mean .*'mean'.*",
    ),
    "filter unknown": (
        files(birds_yaml=good(filter_list="[{name: a, filter: [{function: take_frist}]}]")),
        r"error  birds.yaml:7: filter 'take_frist' is not known. Did you mean 'take_first'.*",
    ),
    "filter with a broken pattern": (
        files(
            birds_yaml=good(
                filter_list="[{name: a, filter: [{function: regex, regex_pattern: '(['}]}]"
            )
        ),
        r"error  birds.yaml:7: .*'\(\[' .*",
    ),
    "more answers than there are": (
        files(birds_yaml=good(filter_list="[{name: a, filter: [{function: take_first_k, k: 8}]}]")),
        r"error  birds.yaml:7: take_first_k needs 8 answers, but repeats is 1.",
    ),
    "template broken": (
        files(birds_yaml=good(doc_to_text='"{{ question }"')),
        r"error  birds.yaml:6: doc_to_text: the template .* is not valid Jinja: .*",
    ),
    "template with an unknown filter": (
        files(birds_yaml=good(doc_to_text='"{{ question | regex_replacer }}"')),
        r"error  birds.yaml:6: doc_to_text: the template .* is not valid Jinja: .*regex_replacer.*",
    ),
    "untagged function": (
        files(birds_yaml=good(doc_to_text="utils.text"), utils_py=QUESTION),
        r"warning  birds.yaml:6: doc_to_text = 'utils.text' names a function, .*",
    ),
    "no split": (
        files(birds_yaml=good().replace("test_split: train\n", "")),
        r"error  birds.yaml:1: names neither test_split nor validation_split: .*",
    ),
    "split is a number": (
        files(birds_yaml=good(test_split="3")),
        r"error  birds.yaml:6: test_split = 3: expected text.",
    ),
    "choices are missing": (
        files(birds_yaml=good(output_type="multiple_choice")),
        r"error  birds.yaml:7: output_type 'multiple_choice' needs doc_to_choice: .*",
    ),
    "output type unknown": (
        files(birds_yaml=good(output_type="generate_untill")),
        r"error  birds.yaml:7: output_type = 'generate_untill': .* Did you mean 'generate_until'\?",
    ),
    "agent": (
        files(birds_yaml=good(output_type="generate_until_agentic")),
        r"note  birds.yaml:7: output_type 'generate_until_agentic' .*: fieldmark does not run it.",
    ),
    "Python task": (
        files(birds_yaml="task: birds\nclass: !function utils.Birds\n", utils_py="x = 1\n"),
        r"note  birds.yaml:2: is a task written as a Python class: fieldmark does not run it.",
    ),
    "stop string in single quotes": (
        files(birds_yaml=good(generation_kwargs=r"{until: ['\n']}")),
        r"warning  birds.yaml:7: until contains a backslash and a letter, not a line break: .*",
    ),
    "stop string is a number": (
        files(birds_yaml=good(generation_kwargs="{until: 3}")),
        r"error  birds.yaml:7: until = 3: expected text, or a list of texts.",
    ),
    "temperature is a word": (
        files(birds_yaml=good(generation_kwargs="{temperature: hot}")),
        r"error  birds.yaml:7: temperature = 'hot': expected a number, 0 or more.",
    ),
    "setting misspelt": (
        files(birds_yaml=good(generation_kwargs="{max_new_token: 3}")),
        r"warning  birds.yaml:7: key 'max_new_token' of generation_kwargs .*'max_new_tokens'\?",
    ),
    "key without effect": (
        files(birds_yaml=good(full_docs="true")),
        r"note  birds.yaml:7: full_docs is never read.",
    ),
    "data missing": (
        files(birds_yaml=good(dataset_kwargs="{data_files: row.jsonl}")),
        r"warning  birds.yaml:6: data_files 'row.jsonl' does not exist. Did you mean 'rows.*'\?",
    ),
    "group of nobody": (
        files(all_yaml="group: all\ntask: [birdz]\n", birds_yaml=good()),
        r"error  all.yaml:2: .*'birdz' is not known. Did you mean 'birds'\?.*",
    ),
    "group in itself": (
        files(all_yaml="group: all\ntask: [all]\n"),
        r"error  all.yaml:2: groups contain each other: all → all.",
    ),
    "group with a null": (
        files(all_yaml="group: all\ntask: [null]\n"),
        r"error  all.yaml:2: task\[0\] is empty: .*",
    ),
    "group averages what is not there": (
        files(
            all_yaml="group: all\ntask: [birds]\naggregate_metric_list: [{metric: exact_mach}]\n",
            birds_yaml=good(),
        ),
        r"warning  all.yaml:3: no task of the group has the result 'exact_mach,none' .*",
    ),
    "group puts on a key that nobody knows": (
        files(all_yaml="group: all\ntask: [birds]\nnum_fewshots: 3\n", birds_yaml=good()),
        r"error  all.yaml:3: key 'num_fewshots' is not known. Did you mean 'num_fewshot'\?",
    ),
    "name stands twice": (
        files(birds_yaml=good(), more__birds_yaml=good() + "num_fewshot: 0\n", more__rows_jsonl=""),
        r"error  more/birds.yaml:1: task 'birds' is defined in .*birds.yaml:1 too: rename one.",
    ),
}


def check(
    folder: Path, capsys: pytest.CaptureFixture[str], code_s: int = 2
) -> tuple[int, list[str]]:
    """The exit code and the lines told of the folder's files, by their names in it."""
    start = time.monotonic()
    code = main(["check", str(folder), "--run-code", "--code-s", str(code_s)])
    assert time.monotonic() - start < 120, "it does not end"
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return code, told.out.replace(f"{folder}/", "").splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tasks"
    made.mkdir()
    row = {"question": "Which bird?", "answer": "a wren"}
    (made / "rows.jsonl").write_text(json.dumps(row) + "\n")
    return made


@pytest.mark.parametrize("name", CASES)
def test_hostile_file(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write, expected = CASES[name]
    write(folder)
    # A busy machine takes its time to import: only what never ends is given little.
    code, lines = check(folder, capsys, 2 if "longer than 2 s" in expected else 60)
    assert len(lines) == bool(expected), lines
    if expected:
        assert re.fullmatch(expected, lines[0]), lines[0]
    assert code == (2 if expected.startswith("error") else 0)


@pytest.mark.slow
def test_a_file_with_thousands_of_faults_is_not_a_flood(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "".join(f"k{i}x: 1\n" for i in range(3000))
    (folder / "birds.yaml").write_text(good() + wrong)
    code, lines = check(folder, capsys)
    assert code == 2
    assert len(lines) == 21
    assert lines[-1] == "note  birds.yaml: 2,980 more findings: `--json` shows all."
    main(["check", str(folder), "--json"])
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 3000


@pytest.mark.slow
def test_everything_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each case in a folder of its own below one: none hides another."""
    for number, (write, _) in enumerate(CASES.values()):
        inner = folder / f"case{number}" / "tasks"
        inner.mkdir(parents=True)
        (inner / "rows.jsonl").write_text("{}")
        write(inner)
    code, lines = check(folder, capsys)
    assert code == 2
    told = "\n".join(lines)
    silent = [
        name
        for number, (name, (_, expected)) in enumerate(CASES.items())
        if expected.startswith("error") and f"case{number}/" not in told
    ]
    assert silent == []
