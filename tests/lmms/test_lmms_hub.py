"""Datasets of the hub: from what lies on this machine, and from the network only when asked."""

from __future__ import annotations

import functools
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fieldmark.errors import DataError
from fieldmark.lmms.data.documents import fetch_documents, open_documents, source_of
from fieldmark.lmms.data.sources import cached_file, missing_shards, snapshot
from kit.documents import write_jsonl, write_task

datasets = pytest.importorskip("datasets")

CARD = """---
configs:
- config_name: calls
  data_files: [{split: test, path: calls/test-*}]
- config_name: songs
  data_files: [{split: test, path: songs/test-*}]
---
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place where the hub's client keeps files."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "prepared")
    return tmp_path / "hub"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _fetched(hub: Path, commit: str = "c0ffee", n: int = 3, branch: str = "main") -> Path:
    """A dataset as `hf download` leaves it, with two configurations."""
    home = hub / "datasets--acme--birds"
    folder = home / "snapshots" / commit
    for config in ("calls", "songs"):
        write_jsonl(folder / config / "test-00000-of-00001.jsonl", [{"q": config}] * n)
    (folder / "README.md").write_text(CARD)
    (home / "refs").mkdir(exist_ok=True)
    (home / "refs" / branch).write_text(commit)
    return folder


def test_the_files_the_hubs_client_fetched_are_read(hub: Path, cache: Path, tmp_path: Path) -> None:
    _fetched(hub)
    text = "dataset_path: acme/birds\ndataset_name: songs\ntest_split: test"
    documents = open_documents(write_task(tmp_path, text), cache)
    assert (len(documents.test), documents.test.document(0)) == (3, {"q": "songs"})
    kept = documents.test._data.cache_files
    assert all(Path(each["filename"]).is_relative_to(cache) for each in kept)


def test_a_configuration_that_is_not_there_is_told(hub: Path, cache: Path, tmp_path: Path) -> None:
    _fetched(hub)
    text = "dataset_path: acme/birds\ndataset_name: song\ntest_split: test"
    with pytest.raises(DataError, match=r"task.yaml:2  .*'song' not found.*calls.*songs"):
        open_documents(write_task(tmp_path, text), cache)


def test_a_revision_is_its_own(hub: Path, cache: Path, tmp_path: Path) -> None:
    _fetched(hub, "aaa", 3)
    _fetched(hub, "bbb", 5, "video")
    start = "dataset_path: acme/birds\ndataset_name: calls\ntest_split: test\n"
    for revision, n in (("main", 3), ("video", 5), ("bbb", 5)):
        text = f"{start}dataset_kwargs: {{revision: {revision}}}"
        assert len(open_documents(write_task(tmp_path, text), cache).test) == n
    text = f"{start}dataset_kwargs: {{revision: other}}"
    with pytest.raises(DataError, match="is not on this machine"):
        open_documents(write_task(tmp_path, text), cache)


def test_part_of_a_dataset_is_not_taken_for_all_of_it(
    hub: Path, cache: Path, tmp_path: Path
) -> None:
    folder = _fetched(hub)
    (folder / "songs" / "test-00000-of-00001.jsonl").rename(
        folder / "songs" / "test-00001-of-00002.jsonl"
    )
    assert missing_shards(folder) == ["songs/test-00000-of-00002.jsonl"]
    text = "dataset_path: acme/birds\ndataset_name: songs\ntest_split: test"
    with pytest.raises(DataError, match=r"only partly on this machine \(songs/test-00000-of-00002"):
        open_documents(write_task(tmp_path, text), cache)


def test_tables_the_library_prepared_before_are_read(
    hub: Path, cache: Path, tmp_path: Path
) -> None:
    source = tmp_path / "birds"
    write_jsonl(source / "test.jsonl", [{"q": "a"}] * 4)
    datasets.disable_progress_bars()
    datasets.load_dataset(str(source), cache_dir=str(tmp_path / "made"))
    datasets.enable_progress_bars()
    made = next((tmp_path / "made").glob("*/*/*/*/dataset_info.json")).parent
    home = tmp_path / "prepared" / "acme___birds" / "default" / "0.0.0" / made.name
    shutil.copytree(made, home)
    info = json.loads((home / "dataset_info.json").read_text()) | {"config_name": "default"}
    (home / "dataset_info.json").write_text(json.dumps(info))
    task = write_task(tmp_path, "dataset_path: acme/birds\ntest_split: test")
    assert len(open_documents(task, cache).test) == 4


def test_addresses_of_the_hub_are_found_among_its_files(
    hub: Path, cache: Path, tmp_path: Path
) -> None:
    folder = _fetched(hub)
    address = "hf://datasets/acme/birds/calls/test-00000-of-00001.jsonl"
    assert cached_file(address) == folder / "calls" / "test-00000-of-00001.jsonl"
    assert cached_file(address.replace("birds/", "birds@c0ffee/")) == cached_file(address)
    assert cached_file(address + "x") is None
    assert cached_file("https://example.org/a.jsonl") is None
    text = f"dataset_path: json\ndataset_kwargs: {{data_files: '{address}'}}\ntest_split: train"
    assert len(open_documents(write_task(tmp_path, text), cache).test) == 3


def test_without_a_branch_the_newest_files_count(hub: Path) -> None:
    folder = _fetched(hub)
    (folder.parents[1] / "refs" / "main").unlink()
    assert snapshot("acme/birds") == folder
    assert snapshot("acme/frogs") is None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    write_jsonl(tmp_path / "www" / "rows.jsonl", [{"q": i} for i in range(6)])

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "www"))
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}/rows.jsonl"
    running.shutdown()
    running.server_close()


def test_addresses_are_read_when_asked_and_then_kept(
    hub: Path, cache: Path, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    for module in (datasets.config, constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    text = f"dataset_path: json\ndataset_kwargs: {{data_files: '{server}'}}\ntest_split: train"
    task = write_task(tmp_path / "tasks", text)
    with pytest.raises(DataError, match=r"task.yaml:3  'http.*' is not on this machine: `--fetch`"):
        open_documents(task, cache)
    fetch_documents(source_of(task), cache)
    assert len(open_documents(task, cache).test) == 6
    shutil.rmtree(tmp_path / "www")
    again = open_documents(task, cache)
    assert [again.test.document(i)["q"] for i in range(6)] == list(range(6))


def test_what_was_fetched_and_then_deleted_is_asked_for_again(
    hub: Path, cache: Path, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    for module in (datasets.config, constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    text = f"dataset_path: json\ndataset_kwargs: {{data_files: '{server}'}}\ntest_split: train"
    task = write_task(tmp_path / "tasks", text)
    fetch_documents(source_of(task), cache)
    for path in cache.rglob("*.arrow"):
        path.unlink()
    with pytest.raises(DataError, match="is not on this machine"):
        open_documents(task, cache)
