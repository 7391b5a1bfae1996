"""Can a task or its data reach what nobody named: an address, a file's name that breaks things?"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.settings import generation_kwargs
from fieldmark.lmms.code.digest import code_digest
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.data.documents import Documents, open_documents
from fieldmark.lmms.data.pictures import decoded, folders_for, to_picture
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.tasks import Finder, task_files
from kit.documents import picture_bytes

datasets = pytest.importorskip("datasets")

START = """\
task: birds
doc_to_text: "{{ q }}"
doc_to_target: a
test_split: train
"""
ROW = '{"q": "Which?", "a": "wren"}'


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and what it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ROW.encode())

        do_HEAD = do_GET  # noqa: N815  the name the server calls

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


def opened(folder: Path, more: str) -> Documents:
    (folder / "birds.yaml").write_text(START + more)
    task = load_document_task(folder / "birds.yaml", Trust.of(folder))
    return open_documents(task, folder / "cache")


def test_the_readme_of_a_dataset_opens_no_address(
    tmp_path: Path, asked: tuple[str, list[str]]
) -> None:
    address, paths = asked
    (tmp_path / "data").mkdir()
    (tmp_path / "data/rows.json").write_text(ROW)
    readme = f"---\nconfigs:\n- config_name: default\n  data_files: {address}/rows.json\n---\n"
    (tmp_path / "data/README.md").write_text(readme)
    with pytest.raises(FieldmarkError, match="--fetch") as error:
        opened(tmp_path, "dataset_path: data\n")
    assert not paths
    assert "\n" not in str(error.value)


def test_a_picture_at_an_address_is_not_fetched_for_process_docs(
    tmp_path: Path, asked: tuple[str, list[str]]
) -> None:
    address, paths = asked
    (tmp_path / "rows.json").write_text(ROW[:-1] + f', "image": "{address}/x.png"}}')
    (tmp_path / "utils.py").write_text(
        "import datasets\n"
        "def docs(rows):\n"
        "    rows = rows.cast_column('image', datasets.Image())\n"
        "    return rows.filter(lambda row: row['image'] is not None)\n"
    )
    documents = opened(
        tmp_path,
        "dataset_path: json\ndataset_kwargs: {data_files: rows.json}\n"
        "process_docs: !function utils.docs\n",
    )
    with pytest.raises(FieldmarkError, match="--fetch"):
        _ = documents.test
    assert not paths


def test_readers_that_ask_servers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FieldmarkError, match=r"birds.yaml:5  dataset_path 'iceberg' is not"):
        opened(tmp_path, "dataset_path: iceberg\n")


LONG = "wren" * 100


@pytest.mark.parametrize(
    "more",
    [
        f"dataset_path: {LONG}\n",
        "dataset_path: ~nobody_of_this_name/birds\n",
        f"dataset_path: json\ndataset_kwargs: {{data_files: {LONG}}}\n",
        "dataset_path: json\ndataset_kwargs: {data_files: ~nobody_of_this_name/rows.json}\n",
        'dataset_path: json\ndataset_kwargs: {data_files: "a**b/*"}\n',
        "dataset_path: owner/birds\ndataset_kwargs: {revision: 1}\n",
        "dataset_path: owner/birds\ndataset_kwargs: {revision: [main]}\n",
        'dataset_path: json\ninclude: "a\\0b"\n',
        f"dataset_path: json\ninclude: {LONG}\n",
        "dataset_path: json\nnum_fewshot: !!int ''\n",
        "dataset_path: json\nnum_fewshot: !!timestamp spring\n",
    ],
)
def test_odd_names_and_values_are_one_line(tmp_path: Path, more: str) -> None:
    with pytest.raises(FieldmarkError, match=r"birds\.yaml:\d+  ") as error:
        opened(tmp_path, more)
    assert "\n" not in str(error.value)


def test_links_in_a_circle_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(FieldmarkError, match=r"birds\.yaml:5  include 'one'"):
        opened(tmp_path, "include: one\ndataset_path: json\n")


def test_filter_hands_its_arguments_on(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"q": "1", "a": "wren"}\n{"q": "2", "a": "owl"}\n')
    (tmp_path / "utils.py").write_text(
        "def docs(rows):\n"
        "    return rows.filter(lambda row, a: row['a'] == a, fn_kwargs={'a': 'owl'})\n"
    )
    documents = opened(
        tmp_path,
        "dataset_path: json\ndataset_kwargs: {data_files: rows.json}\n"
        "process_docs: !function utils.docs\n",
    )
    assert [documents.test.document(0)["q"], len(documents.test)] == ["2", 1]


def test_long_texts_in_code_are_no_names_of_files(tmp_path: Path) -> None:
    """150 letters of three bytes: a name that no file can have, below the limit of letters."""
    (tmp_path / "utils.py").write_text(
        f"PROMPT = '{'鳥' * 150}'\ndef docs(rows):\n    return rows\n"
    )
    (tmp_path / "birds.yaml").write_text(f"{START}process_docs: !function utils.docs\n")
    task = load_document_task(tmp_path / "birds.yaml", Trust.of(tmp_path))
    assert code_digest(task.functions, task.trust)


def test_a_temperature_beyond_numbers_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "birds.yaml").write_text(
        f"{START}generation_kwargs: {{temperature: {'9' * 400}}}\n"
    )
    task = load_document_task(tmp_path / "birds.yaml", Trust.of(tmp_path))
    with pytest.raises(FieldmarkError, match=r"birds\.yaml:5  temperature"):
        generation_kwargs(task, [])


def test_base64_without_its_word_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FieldmarkError, match="does not exist") as error:
        to_picture("A" * 100_000)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    "data",
    [
        "dataset_path: text\ndataset_kwargs: {data_files: %s}\n",
        "dataset_path: text\ndataset_kwargs: {data_files: {test: [birds.yaml, %s]}}\n",
        "dataset_path: text\ndataset_kwargs: {data_files: 'file://%s'}\n",
        "dataset_path: text\ndataset_kwargs: {data_files: '%s*'}\n",
        "dataset_path: text\ndataset_kwargs: {data_files: linked}\n",
        "dataset_path: text\ndataset_kwargs: {data_files: 'local://%s'}\n",
        "dataset_path: photos\ndataset_kwargs: {data_files: %s}\n",
        "dataset_path: photos\n",
        "dataset_path: owner/birds\ndataset_kwargs: {data_files: %s}\n",
    ],
)
def test_data_lie_with_the_task_or_where_the_user_said(tmp_path: Path, data: str) -> None:
    """Lines of /etc/passwd became prompts."""
    secret, folder = tmp_path / "secret", tmp_path / "tasks"
    secret.write_text("root:x:0:0")
    (folder / "photos").mkdir(parents=True)
    for link in (folder / "linked", folder / "photos/rows.txt"):
        link.symlink_to(secret)
    more = data.replace("%s", str(secret))
    with pytest.raises(
        FieldmarkError, match=r"birds\.yaml:\d  .*(lie outside|is not the address)"
    ) as error:
        opened(folder, more)
    assert "\n" not in str(error.value)
    if data.endswith(("{data_files: %s}\n", "linked}\n")) and "text" in data:
        task = load_document_task(folder / "birds.yaml", Trust.of(folder, tmp_path))
        assert list(open_documents(task, tmp_path / "cache").test.columns) == ["text"]


CARD = """\
---
configs:
- config_name: default
  data_files: [{split: train, path: "%s"}]
---
"""


@pytest.mark.parametrize("path", ["{secret}", "../../{secret.name}", "file://{secret}", "../../*l"])
def test_a_card_and_a_saved_table_name_no_data_outside(tmp_path: Path, path: str) -> None:
    """The library opens whatever a folder's own README.md, or its state.json, names."""
    secret, folder = tmp_path / "rows.jsonl", tmp_path / "tasks"
    secret.write_text(ROW)
    (folder / "birds").mkdir(parents=True)
    (folder / "birds/README.md").write_text(CARD % path.format(secret=secret))
    (folder / "birds/rows.jsonl").write_text(ROW)
    with pytest.raises(FieldmarkError, match=r"birds\.yaml:\d  the data .* lie outside"):
        opened(folder, "dataset_path: birds\n")
    row = datasets.Dataset.from_list([{"q": "Which?", "a": "wren"}])
    for place in (folder / "saved", tmp_path / "own"):
        row.save_to_disk(str(place))
    (arrow,) = (tmp_path / "own").glob("*.arrow")
    state = json.loads((folder / "saved/state.json").read_text())
    state["_data_files"] = [{"filename": f"../../own/{arrow.name}"}]
    (folder / "saved/state.json").write_text(json.dumps(state))
    with pytest.raises(FieldmarkError, match=r"birds\.yaml:\d  the data .* lie outside"):
        opened(folder, "dataset_path: saved\ndataset_kwargs: {load_from_disk: true}\n")


@pytest.mark.parametrize("kind", ["a path", "a picture", "a message"])
@pytest.mark.parametrize("name", ["{secret}", "../secret.png", "link.png", "fifo.png"])
def test_rows_name_no_pictures_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """They were sent to the model; of a FIFO nothing was heard for half an hour."""
    monkeypatch.chdir(tmp_path)
    secret, folder = tmp_path / "secret.png", tmp_path / "tasks"
    folder.mkdir()
    secret.write_bytes(picture_bytes("PNG"))
    (folder / "link.png").symlink_to(secret)
    os.mkfifo(folder / "fifo.png")
    text = name.format(secret=secret)
    path = text if name.startswith("{") else str(folder / text)
    values = {
        "a path": text,
        "a picture": {"bytes": None, "path": path},
        "a message": {"type": "image", "url": path},
    }
    row = {"q": "Which?", "a": "wren", "seen": values[kind]}
    (folder / "rows.jsonl").write_text(json.dumps(row))
    about = "dataset_path: json\ndataset_kwargs: {data_files: rows.jsonl}\ndoc_to_visual: seen\n"
    split = opened(folder, about).test
    assert split.digest([0])
    task = load_document_task(folder / "birds.yaml", Trust.of(folder))
    (shown,) = Fields(task, None, None, split.columns).visuals(split.document(0, media=True))
    with pytest.raises(FieldmarkError, match="lies outside the folder|does not exist"):
        to_picture(shown, "birds.yaml:3", folders_for(task))
    feature = datasets.Image()
    with pytest.raises(FieldmarkError, match="lies outside the folder|does not exist"):
        decoded(feature, {"bytes": None, "path": path}, folders_for(task))
    if "fifo" not in name:
        mine = load_document_task(folder / "birds.yaml", Trust.of(folder, tmp_path))
        assert decoded(feature, {"bytes": None, "path": path}, folders_for(mine)).size == (12, 8)


def test_a_folder_cannot_take_the_place_of_a_task_that_is_known(tmp_path: Path) -> None:
    """`--task 'world*'` planned only the stranger's `world-stage`."""
    for name in ("world-stage", "world-mine"):
        text = START.replace("birds", name) + "dataset_path: json\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    tasks = Finder([tmp_path]).find("world*")
    known = [name for name in task_files() if name.startswith("world")]
    assert [task.task.task for task in tasks] == [*known, "world-mine"]
    assert next(task for task in tasks if task.name == "world-stage").task.metric
    assert [task.name for task in Finder().find("world-s*")] == ["world-species", "world-stage"]
