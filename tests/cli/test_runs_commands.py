"""`fieldmark runs ls|rm|free`: what is listed, what is removed, whose claim is freed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store, host
from kit import forked

HOLD = """
import sys, time
from fieldmark.store import Store
with Store.open(sys.argv[1]) as store:
    (run,) = [run for run in store.runs() if run.spec.task == "busy"]
    print(store.claim(run.key), flush=True)
    time.sleep(60)
"""


def begin(store: Store, model: str, task: str, data: str = "", root: str = "") -> int:
    version = model if model == "m/two" else f"{model}#4ae7da83ff00"
    spec = RunSpec(model, task, "probe/x", {}, 10, data=data, model_version=version)
    run = store.begin_run(spec, root=root)
    store.write_part(run, PartResult(Predictions(["a"], ["fox"], ["fox"])))
    return run


def finish(store: Store, model: str, task: str, data: str = "", root: str = "") -> int:
    run = begin(store, model, task, data, root)
    store.finish_run(run, [Score("accuracy", 1.0, is_primary=True)])
    return run


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "results" / "fieldmark.db"


@pytest.fixture
def child(path: Path) -> Iterator[forked.Popen]:
    """One run in each state, and a process that is on the one that is running."""
    with Store.open(path) as store:
        finish(store, "m/one", "t", "0123456789-aaaaaaaaaa", "/data/t")
        finish(store, "m/one", "t", "0123456789-bbbbbbbbbb", "/data/t")
        begin(store, "m/one", "stopped")
        store.fail_run(begin(store, "m/two", "bad"), "Traceback ...\nValueError: no")
        begin(store, "m/two", "busy")
    command = [sys.executable, "-c", HOLD, str(path)]
    with forked.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        process.kill()


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["runs", *words]) == code
    caught = capsys.readouterr()
    return caught.err if code else caught.out


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[int, str]:
    found = json.loads(told(capsys, "ls", "--json", *words))
    return {each["id"]: each["state"] for each in found}


def test_every_state_is_listed_with_who_is_on_it(child, capsys) -> None:
    lines = told(capsys, "ls").splitlines()
    assert " ".join(lines[0].split()) == (
        "id key state model task protocol n_train seed photos when (UTC) data folder claimed by"
    )
    states = [line.split()[2] for line in lines[1:]]
    assert states == ["superseded", "done", "killed", "failed", "running"]
    assert "m/one#4ae7da83  t " in lines[1] and "01234567-aaaaaaaa  /data/t" in lines[1]
    assert lines[4].split()[3] == "m/two", "a model without versions"
    assert lines[5].endswith(f"process {child.pid} on {host()}")
    assert listed(capsys, "--task", "b*") == {4: "failed", 5: "running"}
    assert listed(capsys, "--state", "failed", "--state", "killed") == {3: "killed", 4: "failed"}
    assert listed(capsys, "--model", "m/one", "--state", "failed") == {}


def test_json_tells_all_of_a_run(child, capsys) -> None:
    first, _, _, failed, busy = json.loads(told(capsys, "ls", "--json"))
    assert first["superseded_by"] == 2 and first["root"] == "/data/t" and len(first["key"]) == 32
    assert first["model_version"] == "m/one#4ae7da83ff00" and first["n_train"] == 10
    assert failed["error"] == "ValueError: no" and failed["claimed_by"] is None
    assert busy["claimed_by"]["pid"] == child.pid


def test_a_name_no_run_has_is_a_slip(child, capsys) -> None:
    for words in (["ls"], ["rm"]):
        line = told(capsys, *words, "--model", "m/oen", code=2)
        assert line == (
            "fieldmark: No model in these results is called 'm/oen'. Did you mean 'm/one'? "
            "`fieldmark runs ls` lists all.\n"
        )
    assert "No task in these results is called 'bsy'." in told(
        capsys, "ls", "--task", "bsy", code=2
    )
    assert "--state dome: expected one of" in told(capsys, "ls", "--state", "dome", code=2)


def test_runs_are_removed_by_number_key_or_flag(child, path, capsys) -> None:
    (key,) = [each["key"] for each in json.loads(told(capsys, "ls", "--json")) if each["id"] == 3]
    assert "m/one" in told(capsys, "rm", "--superseded", "--dry-run")
    assert len(listed(capsys)) == 5, "a dry run changes nothing"
    assert main(["runs", "rm", "--superseded"]) == 0
    caught = capsys.readouterr()
    assert caught.out.splitlines()[1].split()[:3:2] == ["1", "superseded"]
    assert caught.err == "1 run removed from results/fieldmark.db.\n"
    assert sorted(listed(capsys)) == [2, 3, 4, 5]
    told(capsys, "rm", "--failed", "--model", "m/two")
    told(capsys, "rm", "2", key[:8].upper())
    assert listed(capsys) == {5: "running"}
    with Store.open(path, read_only=True) as store:
        assert store._database.rows("SELECT count(*) FROM answer") == [(1,)]


def test_a_run_that_a_process_is_on_is_not_removed(child, capsys) -> None:
    line = told(capsys, "rm", "--all", code=3)
    assert line == (
        f"fieldmark: run 5 is in progress in process {child.pid} on {host()}: stop that process "
        "first.\n"
    )
    assert len(listed(capsys)) == 5, "all or none"
    child.kill()
    child.wait()
    assert listed(capsys, "--task", "busy") == {5: "killed"}
    told(capsys, "rm", "--all")
    assert listed(capsys) == {}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rm", "99"], "run '99' is not known. `fieldmark runs ls` lists all."),
        (["rm", "xyz"], "run 'xyz' is not known. `fieldmark runs ls` lists all."),
        (["free", "99"], "run '99' is not known. `fieldmark runs ls` lists all."),
        (
            ["rm", "1", "--failed"],
            "give runs, or flags that choose them, or --all: only one of the three.",
        ),
        (
            ["rm", "--all", "--failed"],
            "give runs, or flags that choose them, or --all: only one of the three.",
        ),
        (
            ["rm", ""],
            "run '' is not known. `fieldmark runs ls` lists all.",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_line(child, capsys, words, line) -> None:
    assert told(capsys, *words, code=2) == f"fieldmark: {line}\n"
    assert len(listed(capsys)) == 5


def test_the_beginning_of_several_keys_is_told(path, capsys) -> None:
    with Store.open(path) as store:
        for number in range(17):
            finish(store, "m/one", f"t{number}")
        firsts = [run.key[0] for run in store.runs()]
    (twice, *_) = sorted({each for each in firsts if firsts.count(each) > 1 and each.isalpha()})
    n = firsts.count(twice)
    line = told(capsys, "rm", twice, code=2)
    assert line.startswith(f"fieldmark: {n} runs have a key that starts with {twice}: {twice}")


def test_runs_that_differ_in_their_data_only_are_named_by_number(child, capsys) -> None:
    runs = json.loads(told(capsys, "ls", "--json"))
    (key,) = {each["key"] for each in runs if each["id"] in (1, 2)}
    line = told(capsys, "rm", key[:8], code=2)
    assert line == f"fieldmark: 2 runs have the key {key[:8]}: give a number instead (1, 2).\n"
    told(capsys, "rm", "1")
    told(capsys, "rm", key[:8])
    assert sorted(listed(capsys)) == [3, 4, 5]


def test_a_claim_is_freed_and_its_holder_named(child, path, capsys) -> None:
    assert main(["runs", "free", "5", "4"]) == 0
    first, second, last = capsys.readouterr().err.splitlines()
    assert f"freed; process {child.pid} on {host()} had claimed it at 2" in first
    assert second.endswith(" was not claimed") and last == "1 claim freed."
    assert listed(capsys, "--task", "busy") == {5: "killed"}
    with Store.open(path) as store:
        assert store.claim(store.runs()[0].key)
        assert main(["runs", "free", "--all"]) == 0
        assert f"process {os.getpid()} on" in capsys.readouterr().err
        assert store.claims() == {}


def test_a_missing_store_is_told_and_not_made(path, capsys) -> None:
    for words in (["ls"], ["rm", "--all"], ["free", "--all"]):
        assert "does not exist" in told(capsys, *words, code=3)
    assert not path.parent.exists()


def test_names_do_not_steer_the_terminal(path, capsys) -> None:
    """Defect: raw ESC of a name reaches the terminal."""
    with Store.open(path) as store:
        finish(store, "m/\x1b]0;pwned\x07\x9b2J", "t\u202eevil")
        store._database.connection.execute(
            "INSERT INTO claim VALUES ('k', 'n\x1b[2J', 'x', 1, '1', '2020-01-01T00:00:00Z', "
            "strftime('%Y-%m-%dT%H:%M:%SZ'))"
        )
    assert main(["runs", "ls"]) == main(["runs", "free", "--all"]) == 0
    caught = capsys.readouterr()
    shown = caught.out + caught.err
    assert "m/\\x1b]0;pwned\\x07\\x9b2J" in shown and "t\\u202eevil" in shown
    assert "n\\x1b[2J" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    ("words", "n"),
    [
        (["table", "--model", "chat/gemini/gemini-2.5-pro"], 1),
        (["table", "--model", "chat/gemini/*"], 2),
        (["runs", "ls", "--model", "chat/gemini/gemini-2.5-?ro"], 1),
        (["runs", "rm", "--dry-run", "--model", "chat/gemini/gemini-2.5-pro"], 1),
    ],
)
def test_another_word_for_a_provider_finds_its_results(
    path: Path, capsys: pytest.CaptureFixture[str], words: list[str], n: int
) -> None:
    """`run --model chat/gemini/…` keeps them under `chat/google/…`."""
    with Store.open(path) as store:
        for model in ("chat/google/gemini-2.5-pro", "chat/google/gemini-2.5-flash", "m/one"):
            finish(store, model, "t")
    assert main([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == n
    assert main(["compare", "chat/gemini/gemini-2.5-pro", "chat/gemini/gemini-2.5-flash"]) == 0
    assert main(["compare", "--published", "chat/gemini/gemini-2.5-pro"]) == 0
