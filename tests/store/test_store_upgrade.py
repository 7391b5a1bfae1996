"""Making a store and bringing an older one up to date: whole or not at all, and nothing is lost.

`former/` holds the schema of versions 1 to 4, and rows that fieldmark 0.1.0 wrote.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fieldmark.errors import StoreError
from fieldmark.store import RunSpec, Store, schema

FORMER = Path(__file__).parent / "former"
KEY = RunSpec(
    *("classical/colour", "beluga", "probe/neighbours", {"k": 1}), n_train=10, data="0123abcd"
).key


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def tables_of(path: Path) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
        ).fetchall()


def make_former(path: Path, version: int, rows: str = "") -> None:
    """A store as an older fieldmark left it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        for file in sorted(FORMER.glob("0*.sql"))[:version]:
            connection.executescript(file.read_text())
        connection.executescript(rows + f"PRAGMA user_version = {version};")


@pytest.fixture
def former(path: Path) -> Path:
    make_former(path, 4, (FORMER / "rows.sql").read_text())
    return path


def check_former_rows(store: Store) -> None:
    done, killed = store.runs()
    assert (done.key, done.state, killed.state) == (KEY, "done", "running")
    assert (done.root, done.n_items, done.fingerprint) == ("", 3, "weights-1")
    (score,) = store.scores()[done.id]
    assert (score.metric, score.value, score.warning) == ("accuracy", 0.5, "few units")
    for run in (done, killed):
        assert store.predictions(run.id).drop("score").rows() == [
            ("", 0, "a.jpg", "fox", "fox", "burst-1", "ok", None, None),
            ("", 0, "b.jpg", "hare", "fox", "burst-1", "ok", '{"usd":0.01}', None),
            ("", 0, "c.jpg", "fox", None, None, "unparsed", None, None),
        ]
    assert store.record(done.id) == {"command": ["fieldmark", "run"]}


def test_a_new_file_has_the_schema_and_opens_again(path, spec):
    with Store.open(path) as store:
        store.begin_run(spec)
    assert version_of(path) == schema.VERSION
    with Store.open(path) as store:
        assert len(store.runs()) == 1
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_version_four_is_upgraded_wherever_it_is_opened(former, spec, result, read_only):
    """Defect K1: every command but rescore refuses it."""
    before = former.read_bytes()
    with Store.open(former, read_only=read_only) as store:
        check_former_rows(store)
    copy = former.with_name("fieldmark.db.version-4")
    assert sorted(each.name for each in former.parent.iterdir()) == [former.name, copy.name]
    assert version_of(former) == schema.VERSION and version_of(copy) == 4
    with Store.open(former) as store:
        assert store._database.rows("PRAGMA foreign_key_check") == []
        assert store._database.rows("PRAGMA integrity_check") == [("ok",)]
        assert store._database.rows("PRAGMA foreign_keys") == [(1,)]
        run = store.begin_run(spec)
        assert run == 4, "the number of a dropped run is never given again"
        store.write_part(run, result)
        store.finish_run(run, [])
        assert store.drop_run(KEY) and store.predictions(1).is_empty()
    former.write_bytes(copy.read_bytes())
    assert before[:16] == former.read_bytes()[:16]
    with Store.open(former) as store:
        check_former_rows(store)
    assert version_of(former.with_name("fieldmark.db.version-4.2")) == 4


def test_an_upgraded_store_has_the_very_tables_of_a_new_one(former, tmp_path):
    Store.open(former).close()
    Store.open(tmp_path / "new.db").close()
    assert tables_of(former) == tables_of(tmp_path / "new.db")


def test_what_stands_in_the_log_of_a_killed_process_is_kept(former, spec):
    """kill -9 leaves rows in the -wal file that the main file lacks."""
    with closing(sqlite3.connect(former)) as writer:
        writer.execute("UPDATE run SET seed = 7")
        writer.commit()
        places = [former.parent / "killed" / f"fieldmark.db{end}" for end in ("", "-wal")]
        places[0].parent.mkdir()
        for place in places:
            shutil.copy(former.with_name(place.name), place)
    with Store.open(places[0], read_only=True) as store:
        assert {run.spec.seed for run in store.runs()} == {7}
    with closing(sqlite3.connect(f"{places[0]}.version-4")) as copy:
        assert copy.execute("SELECT DISTINCT seed FROM run").fetchall() == [(7,)]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("read_only", [True, False])
def test_what_a_kill_left_behind_becomes_a_new_store(path, tmp_path, version, read_only):
    """Defect K1: a kill while the file was made left version 1, 2 or 3, refused for ever."""
    make_former(path, version)
    with Store.open(path, read_only=read_only) as store:
        assert store.runs() == []
    Store.open(tmp_path / "new.db").close()
    assert version_of(path) == schema.VERSION
    assert tables_of(path) == tables_of(tmp_path / "new.db")
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing worth a copy"


def test_runs_of_version_three_go_along(path):
    rows = (FORMER / "rows.sql").read_text().replace(",'few units')", ")")
    make_former(path, 3, rows)
    with Store.open(path, read_only=True) as store:
        assert store.scores()[1][0].warning == ""
        assert len(store.runs()) == 2 and len(store.predictions(1)) == 3


def test_runs_of_version_one_are_told(path):
    lines = (FORMER / "rows.sql").read_text().splitlines()
    make_former(path, 1, "".join(line for line in lines if '"run"' in line or '"text"' in line))
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(StoreError) as caught:
            Store.open(path, read_only=read_only)
        assert str(caught.value) == (
            f"{path}  holds runs of a fieldmark before 0.1.0 (store version 1), which this one "
            "cannot read: move it away, or choose another folder with --results, and run the same "
            "command again."
        )
    assert path.read_bytes() == before


def test_an_older_store_that_cannot_be_written_is_told(former, monkeypatch):
    """Root may write everywhere: SQLite is told to open the file for reading only."""
    connect = sqlite3.connect

    def read_only(name, **options):
        return connect(str(name).replace("mode=rwc", "mode=ro"), **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with pytest.raises(StoreError) as caught:
        Store.open(former, read_only=True)
    assert str(caught.value) == (
        f"{former}  was written by an older fieldmark (store version 4, this one wants "
        f"{schema.VERSION}) and cannot be brought up to date, the file or its folder is read-only: "
        "copy it to a folder of your own and name that with --results."
    )
    monkeypatch.undo()
    assert version_of(former) == 4


def test_a_full_disk_leaves_the_older_store_as_it_is(former, monkeypatch):
    class Full(sqlite3.Connection):
        def backup(self, *_arguments, **_options):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Full, **k))
        with pytest.raises(StoreError, match="the disk is full"):
            Store.open(former)
    assert version_of(former) == 4
    assert not [each for each in former.parent.iterdir() if "version" in each.name]
    with Store.open(former) as store:
        check_former_rows(store)


KILLED = """
import os, signal, sqlite3, sys
from contextlib import closing
from pathlib import Path

n = 0

class Killed(sqlite3.Connection):
    '''kill -9 before the n-th statement, however it is sent.'''
    def execute(self, *arguments):
        global n
        n -= 1
        if n == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(*arguments)

connect = sqlite3.connect
sqlite3.connect = lambda *a, **k: connect(*a, factory=Killed, **k)
from fieldmark.store import Store

path, kept = Path(sys.argv[1]), sys.argv[2]
left, last = [], -1
for number in range(1, 1000):
    for file in path.parent.iterdir():
        file.unlink()
    if kept:
        path.write_bytes(Path(kept).read_bytes())
    child = os.fork()
    if child == 0:
        n = number
        Store.open(path).close()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    n = -1
    with closing(connect(path)) as connection:
        left.append(connection.execute("PRAGMA user_version").fetchone()[0])
    with Store.open(path) as store:
        runs = [(run.id, run.state, len(store.predictions(run.id))) for run in store.runs()]
        assert runs == ([(1, "done", 3), (2, "running", 3)] if kept else []), (number, runs)
        assert store._database.rows("PRAGMA integrity_check") == [("ok",)]
        assert store._database.rows("PRAGMA foreign_key_check") == []
    names = [file.name for file in path.parent.iterdir()]
    assert not [name for name in names if name.endswith(("-wal", "-shm"))], (number, left, names)
print(*left)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kill -9")
@pytest.mark.parametrize("has_former", [False, True])
def test_kill_nine_between_any_two_statements_leaves_one_version_or_the_other(tmp_path, has_former):
    """Defect K1: 188 of 200 aimed kills left a store that is refused for ever."""
    kept = tmp_path / "kept.db"
    if has_former:
        make_former(kept, 4, (FORMER / "rows.sql").read_text())
    place = tmp_path / "results" / "fieldmark.db"
    place.parent.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(place), str(kept) if has_former else ""],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    left = list(map(int, done.stdout.split()))
    assert len(left) > 25 and left == sorted(left)
    assert set(left) <= {4 if has_former else 0, schema.VERSION}
