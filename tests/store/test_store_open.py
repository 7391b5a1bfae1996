"""Opening: what is refused and with which line, and reading without a trace."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fieldmark.errors import StoreError
from fieldmark.files import FileSystem, filesystem_of
from fieldmark.store import PartResult, Predictions, Store, database


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_tables_are_really_strict(path, spec):
    with Store.open(path) as store:
        store.begin_run(spec)
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(
            sqlite3.IntegrityError, match="cannot store TEXT value in INTEGER column"
        ):
            connection.execute("UPDATE run SET seed = 'seven'")
        tables = connection.execute(
            "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
        ).fetchall()
    assert {
        name for name, strict in tables if not strict and not name.startswith("sqlite_")
    } == set()


def test_names_cannot_be_deleted(path, spec, result):
    with Store.open(path) as store:
        store.write_part(store.begin_run(spec), result)
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("DELETE FROM text")


def test_local_files_use_wal(store):
    if filesystem_of(store.path).is_shared:
        pytest.skip("this folder is on a network file system")
    assert store._database.rows("PRAGMA journal_mode") == [("wal",)]


def test_network_files_use_the_plain_journal(path, spec, monkeypatch):
    Store.open(path).close()
    nfs = FileSystem("nfs4", True, path.parent)
    monkeypatch.setattr(database, "filesystem_of", lambda path: nfs)
    with Store.open(path) as store:
        assert store._database.rows("PRAGMA journal_mode") == [("delete",)]
        store.begin_run(spec)


def test_reading_a_missing_store_is_empty_and_makes_nothing(tmp_path):
    path = tmp_path / "no" / "such" / "folder.db"
    with Store.open(path, read_only=True) as store:
        assert store.runs() == [] and store.scores() == {} and store.claims() == {}
        assert {
            run.key for run in store.runs() if run.state == "done"
        } == set() and store.predictions(1).is_empty()
    assert list(tmp_path.iterdir()) == []


def test_reading_an_empty_file_is_an_empty_store(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    with Store.open(path, read_only=True) as store:
        assert store.runs() == []
    assert path.stat().st_size == 0


def test_defect_upstream_dry_run_leaves_no_trace(path, spec, result):
    """A plan reads claims and runs; not a byte changes and no file is left beside the store."""
    with Store.open(path) as store:
        store.write_part(store.begin_run(spec), result)
        store._database.connection.execute(
            "INSERT INTO claim VALUES ('k', 'elsewhere', 'x', 1, '1', '2020-01-01T00:00:00Z', "
            "'2020-01-01T00:00:00Z')"
        )
    before = bytes_in(path.parent)
    with Store.open(path, read_only=True) as store:
        assert store.claims() == {} and len(store.runs()) == 1
    assert bytes_in(path.parent) == before


def test_a_read_only_store_cannot_be_written(path, spec):
    Store.open(path).close()
    with Store.open(path, read_only=True) as store, pytest.raises(StoreError, match="read-only"):
        store.begin_run(spec)


def test_reading_while_another_writes(path, spec, result):
    with Store.open(path) as writer, Store.open(path, read_only=True) as reader:
        run = writer.begin_run(spec)
        with writer._database.writing() as connection:
            connection.execute("UPDATE run SET seed = 5")
            assert reader.runs()[0].spec.seed == 0
        writer.write_part(run, result)
        assert len(reader.predictions(run)) == 3


def test_locked_by_another_process(path, spec):
    Store.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as caught:
            Store.open(path, timeout_s=0.1)
        with Store.open(path, read_only=True, timeout_s=0.1) as store:
            assert store.runs() == []
        other.execute("ROLLBACK")
        with Store.open(path, timeout_s=0.1) as store:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError) as later:
                store.begin_run(spec)
    assert str(later.value) == str(caught.value)
    assert str(caught.value) == (
        f"{path}  is locked by another process (waited 0.1 s): wait for it or stop it, then run "
        "the same command again."
    )


@contextmanager
def as_nobody():
    """The body runs as somebody without special rights, also where the tests run as root."""
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder others may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="rights as on Unix")
def test_read_only_file_and_folder(open_folder, spec):
    path = open_folder / "results.db"
    with Store.open(path) as store:
        store.begin_run(spec)
    path.chmod(0o444)
    open_folder.chmod(0o555)
    with as_nobody():
        with Store.open(path, read_only=True) as store:
            assert len(store.runs()) == 1
        with pytest.raises(StoreError) as caught:
            Store.open(path)
        with pytest.raises(StoreError) as new_file:
            Store.open(open_folder / "other.db")
        with pytest.raises(StoreError) as new_folder:
            Store.open(open_folder / "sub" / "other.db")
    assert str(caught.value) == (
        f"{path}  cannot be written, the file or its folder is read-only: make it writable, or "
        "choose another folder with --results."
    )
    assert str(new_file.value) == (
        f"{open_folder}/other.db  cannot be opened: check the permissions of the file and its "
        "folder, or choose another folder with --results."
    )
    assert str(new_folder.value) == (
        f"{open_folder}/sub  cannot be made (Permission denied): make this folder by hand, or "
        "choose another folder with --results."
    )


@pytest.mark.skipif(os.name != "posix", reason="rights as on Unix")
def test_a_read_only_file_in_an_open_folder_is_told_at_once(open_folder):
    path = open_folder / "results.db"
    Store.open(path).close()
    open_folder.chmod(0o777)
    path.chmod(0o444)
    with as_nobody(), pytest.raises(StoreError, match="the file or its folder is read-only"):
        Store.open(path)


@pytest.mark.skipif(os.name != "posix", reason="rights as on Unix")
@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_that_cannot_be_entered_is_told(open_folder, read_only):
    path = open_folder / "results.db"
    open_folder.chmod(0o000)
    with as_nobody(), pytest.raises(StoreError) as caught:
        Store.open(path, read_only=read_only)
    assert str(caught.value) == (
        f"{path}  cannot be reached (Permission denied): check its folders, or choose another "
        "folder with --results."
    )


def test_a_text_file_is_not_a_store(tmp_path):
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, and they are longer than one hundred bytes " * 20)
    before = bytes_in(tmp_path)
    for read_only in (False, True):
        with pytest.raises(StoreError) as caught:
            Store.open(path, read_only=read_only)
        assert str(caught.value) == (
            f"{path}  is not a fieldmark store (not an SQLite file): move it away, or choose "
            "another folder with --results."
        )
    assert bytes_in(tmp_path) == before


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "results.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE results (a)")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError) as caught:
            Store.open(path, read_only=read_only)
        assert str(caught.value) == (
            f"{path}  is another program's SQLite database: move it away, or choose another folder "
            "with --results."
        )
    assert path.read_bytes() == before


def test_a_folder_is_not_a_store(tmp_path):
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path)
    assert (
        str(caught.value) == f"{tmp_path}  is a folder: the store is one file, such as results.db."
    )


def test_a_newer_file_is_refused(path):
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    for read_only in (False, True):
        with pytest.raises(StoreError) as caught:
            Store.open(path, read_only=read_only)
        assert str(caught.value) == (
            f"{path}  was written by a newer fieldmark (store version 99, this one knows up to "
            f"{database.VERSION}): update fieldmark, or choose another folder with "
            "--results."
        )


def test_a_damaged_file_is_told(path, spec):
    ids = [f"{index:06d}" for index in range(5_000)]
    with Store.open(path) as store:
        run = store.begin_run(spec)
        store.write_part(run, PartResult(Predictions(ids, ids, ids)))
    content = bytearray(path.read_bytes())
    content[8192:-4096] = b"\xa5" * (len(content) - 12288)
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught, Store.open(path, read_only=True) as store:
        store.predictions(run)
    assert str(caught.value) == (
        f"{path}  is damaged: move it away and run the same command again; `sqlite3 {path.name} "
        ".recover` shows what can be saved."
    )


def test_a_full_disk_loses_nothing_that_was_finished(path, spec, result):
    ids = [f"{index:09d}" for index in range(50_000)]
    big = PartResult(Predictions(ids, ids, ids), part="big")
    with Store.open(path) as store:
        run = store.begin_run(spec)
        store.write_part(run, result)
        store._database.connection.execute("PRAGMA max_page_count = 60")
        with pytest.raises(StoreError) as caught:
            store.write_part(run, big)
        assert str(caught.value) == (
            f"{path}  could not grow, the disk is full: free some space, then run the same command "
            "again; finished parts are kept."
        )
        store._database.connection.execute("PRAGMA max_page_count = 1000000")
        assert [each.part for each in store.finished_parts(run)] == [""]
        store.write_part(run, big)
        assert len(store.predictions(run)) == 50_003


def test_a_name_that_is_not_utf8_is_damage(path, spec, result):
    with Store.open(path) as store:
        store.write_part(store.begin_run(spec), result)
    content = path.read_bytes()
    assert content.count(b"burst-1") == 2, "in the table and in its index"
    path.write_bytes(content.replace(b"burst-1", b"burst\xff1"))
    with pytest.raises(StoreError, match="is damaged"), Store.open(path, read_only=True) as store:
        store.predictions(1)


@pytest.mark.skipif(os.name != "posix", reason="files in use can be removed")
def test_a_store_removed_while_in_use_is_told(path, spec, result):
    """Defect K7: the results folder is removed during a run, which says "1 run finished"."""
    with Store.open(path) as store:
        run = store.begin_run(spec)
        store.write_part(run, result)
        shutil.rmtree(path.parent)
        with pytest.raises(StoreError) as caught:
            store.finish_run(run, [])
        Store.open(path).close()  # another process makes a new one: still not ours
        with pytest.raises(StoreError):
            store.finish_run(run, [])
    assert str(caught.value) == (
        f"{path}  was removed or replaced while it was in use: what was written since is lost. "
        "Run the same command again."
    )


def test_old_sqlite_is_refused(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.31.1")
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert str(caught.value) == (
        "this Python's SQLite 3.31.1 is too old, 3.37.0 is needed: use a newer Python, such as "
        "the one `uv python install` brings."
    )
    assert not path.exists()


def test_strange_paths_work(tmp_path, spec):
    path = tmp_path / "a folder?with#odd %41 näme" / "results?mode=memory.db"
    with Store.open(path) as store:
        store.begin_run(spec)
    assert path.is_file()
    with Store.open(str(path), read_only=True) as store:
        assert len(store.runs()) == 1


def test_many_processes_may_make_the_same_file_at_once(path, spec):
    code = (
        "import sys; from fieldmark.store import RunSpec, Store\n"
        "with Store.open(sys.argv[1]) as store: store.begin_run(RunSpec('m', 't', sys.argv[2]))"
    )
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(4)]
    assert [job.wait(timeout=60) for job in jobs] == [0] * 4
    with Store.open(path, read_only=True) as store:
        assert [run.spec.protocol for run in store.runs()] == ["0", "1", "2", "3"]


def test_importing_the_store_is_light():
    code = (
        "import sys, fieldmark.store; heavy = {'numpy', 'polars', 'torch', 'sklearn', 'pydantic'}; "
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
