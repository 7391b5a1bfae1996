"""Opening a task's documents: every local layout, quietly, offline, below the given cache."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.data.documents import Documents, Split, open_documents
from kit.documents import picture_bytes, row_of, write_jsonl, write_task

datasets = pytest.importorskip("datasets")

ROWS = [{"question": f"Which {i}?", "answer": str(i), "options": ["a", "b"]} for i in range(5)]
JSONL = "dataset_path: json\ndataset_kwargs: {data_files: data/rows.jsonl}\ntest_split: train\n"


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even loopback, not even a name: nothing here may ask anybody."""

    def refuse(*args: Any, **more: Any) -> Any:
        raise AssertionError(f"the network was asked: {args[-1]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "tasks" / "data" / "rows.jsonl", ROWS)
    return tmp_path / "tasks"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _features(**more: Any) -> Any:
    return datasets.Features({"question": datasets.Value("string"), **more})


def _save_parquet(path: Path, rows: list[dict[str, Any]], features: Any = None) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = features.arrow_schema if features is not None else None
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), path)


class TestLayouts:
    @pytest.mark.parametrize("builder", ["json", "jsonl"])
    def test_lines_of_json(self, folder: Path, cache: Path, builder: str) -> None:
        task = write_task(folder, JSONL.replace("json\n", f"{builder}\n", 1))
        split = open_documents(task, cache).test
        assert (len(split), split.columns) == (5, ("question", "answer", "options"))
        assert [split.document(i) for i in range(5)] == ROWS

    def test_one_file_of_json_with_a_field(self, folder: Path, cache: Path) -> None:
        (folder / "all.json").write_text('{"data": [{"q": 1}, {"q": 2}]}')
        text = "dataset_path: json\ndataset_kwargs: {data_files: all.json, field: data}\n"
        split = open_documents(write_task(folder, text + "test_split: train"), cache).test
        assert [split.document(i) for i in range(2)] == [{"q": 1}, {"q": 2}]

    def test_tables_of_csv_and_tsv(self, folder: Path, cache: Path) -> None:
        (folder / "a.csv").write_text("q,n\nowl,1\nbat,2\n")
        (folder / "a.tsv").write_text("q\tn\nowl\t1\n")
        for kind, n in (("csv", 2), ("tsv", 1)):
            text = f"dataset_path: {kind}\ndataset_kwargs: {{data_files: a.{kind}}}\n"
            split = open_documents(write_task(folder, text + "test_split: train"), cache).test
            assert (len(split), split.document(0)) == (n, {"q": "owl", "n": 1})

    def test_text_and_arrow(self, folder: Path, cache: Path) -> None:
        (folder / "a.txt").write_text("owl\nbat\n")
        datasets.Dataset.from_list(ROWS).save_to_disk(folder / "saved")
        file = next((folder / "saved").glob("*.arrow")).name
        for kind, path, first in (
            ("text", "a.txt", {"text": "owl"}),
            ("arrow", f"saved/{file}", ROWS[0]),
        ):
            text = f"dataset_path: {kind}\ndataset_kwargs: {{data_files: {path}}}\n"
            split = open_documents(write_task(folder, text + "test_split: train"), cache).test
            assert split.document(0) == first

    def test_a_folder_of_images_beside_the_task(
        self, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        photos = folder / "photos"
        photos.mkdir()
        for name in ("owl", "bat"):
            (photos / f"{name}.jpg").write_bytes(picture_bytes())
        (photos / "metadata.csv").write_text("file_name,label\nowl.jpg,Owl\nbat.jpg,Bat\n")
        text = "dataset_path: imagefolder\ndataset_kwargs: {data_dir: photos}\ntest_split: train"
        monkeypatch.chdir(tmp_path)
        split = open_documents(write_task(folder, text), cache).test
        assert split.media_columns == ("image",)
        assert [split.document(i) for i in range(2)] == [{"label": "Owl"}, {"label": "Bat"}]
        assert split.document(0, media=True)["image"].size == (12, 8)

    def test_a_folder_of_class_folders(self, folder: Path, cache: Path) -> None:
        for name in ("bat", "owl"):
            path = folder / "photos" / name / "1.png"
            path.parent.mkdir(parents=True)
            path.write_bytes(picture_bytes("PNG"))
        text = "dataset_path: imagefolder\ndataset_kwargs: {data_dir: photos}\ntest_split: train"
        split = open_documents(write_task(folder, text), cache).test
        assert [split.document(i)["label"] for i in range(2)] == [0, 1]

    def test_saved_tables_with_and_without_splits(self, folder: Path, cache: Path) -> None:
        table = datasets.Dataset.from_list(ROWS)
        table.save_to_disk(folder / "one")
        datasets.DatasetDict({"val": table.select([3])}).save_to_disk(folder / "many")
        text = "dataset_kwargs: {load_from_disk: true}\ntest_split: val\n"
        one = open_documents(write_task(folder, f"dataset_path: one\n{text}"), cache)
        many = open_documents(write_task(folder, f"dataset_path: ./many\n{text}"), cache)
        assert (len(one.test), len(many.test)) == (5, 1)
        assert many.test.document(0) == ROWS[3]

    def test_a_local_folder_of_files(self, folder: Path, cache: Path) -> None:
        (folder / "birds").mkdir()
        _save_parquet(folder / "birds" / "test-00000-of-00001.parquet", ROWS)
        task = write_task(folder, "dataset_path: birds\ntest_split: test")
        assert len(open_documents(task, cache).test) == 5

    def test_files_by_split_list_and_pattern(self, folder: Path, cache: Path) -> None:
        write_jsonl(folder / "data" / "more.jsonl", ROWS[:2])
        start = "dataset_path: json\ntest_split: {}\ndataset_kwargs:\n  data_files: {}\n"
        for split, files, n in (
            ("dev", "{dev: data/more.jsonl, train: data/rows.jsonl}", 2),
            ("train", "[data/more.jsonl, data/rows.jsonl]", 7),
            ("train", "data/*.jsonl", 7),
            ("test", "{test: [data/more.jsonl, data/rows.jsonl]}", 7),
            ("train", str(folder / "data" / "rows.jsonl"), 5),
        ):
            task = write_task(folder, start.format(split, files))
            assert len(open_documents(task, cache).test) == n

    def test_files_are_meant_from_the_file_that_names_them(self, folder: Path, cache: Path) -> None:
        (folder / "base_yaml").write_text(JSONL)
        task = write_task(folder / "deeper", "score_key: s")
        (folder / "deeper" / "task.yaml").write_text("include: ../base_yaml\ntask: made\n")
        from fieldmark.lmms.code.trust import Trust
        from fieldmark.lmms.read.groups import load_document_task

        task = load_document_task(folder / "deeper" / "task.yaml", Trust.of(folder))
        assert len(open_documents(task, cache).test) == 5

    def test_a_changed_file_is_read_again(self, folder: Path, cache: Path) -> None:
        task = write_task(folder, JSONL)
        assert len(open_documents(task, cache).test) == 5
        write_jsonl(folder / "data" / "rows.jsonl", ROWS[:2])
        assert len(open_documents(task, cache).test) == 2

    def test_pickled_tables_need_the_trust_that_code_needs(
        self, folder: Path, cache: Path, tmp_path: Path
    ) -> None:
        import pandas

        for place in (folder, tmp_path):
            pandas.DataFrame(ROWS).to_pickle(place / "rows.pkl")
        text = "dataset_path: pandas\ntest_split: train\ndataset_kwargs: {data_files: %s}"
        assert len(open_documents(write_task(folder, text % "rows.pkl"), cache).test) == 5
        with pytest.raises(UsageError, match="is a pickle, which can run code, and lies outside"):
            open_documents(write_task(folder, text % "../rows.pkl"), cache)


class TestMedia:
    def _task(self, folder: Path, more: str = "", code: str = "") -> Any:
        good = row_of(picture_bytes())
        bad = row_of(b"\xff\xd8 this is no picture")
        rows = [
            {"question": f"q{i}", "image": bad if i == 1 else good, "several": [good, bad],
             "deep": {"image": bad, "n": i}}
            for i in range(4)
        ]  # fmt: skip
        image = datasets.Image()
        features = _features(
            image=image,
            several=datasets.List(image),
            deep={"image": image, "n": datasets.Value("int64")},
        )
        _save_parquet(folder / "rows.parquet", rows, features)
        text = "dataset_path: parquet\ndataset_kwargs: {data_files: {test: rows.parquet}}\n"
        return write_task(folder, f"{text}test_split: test\n{more}", code)

    def test_without_media_nothing_is_decoded(
        self, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Pictures that cannot be decoded lie in every row, and Pillow is not even asked."""

        def refuse(*args: Any, **more: Any) -> Any:
            raise AssertionError("a picture was opened")

        task = self._task(
            folder,
            "process_docs: !function utils.keep\n",
            "def keep(docs):\n    return docs.filter(lambda doc: doc['question'] != 'q3')"
            ".map(lambda doc: {'length': len(doc['question'])}).select([0, 1])",
        )
        monkeypatch.setattr(Image, "open", refuse)
        monkeypatch.setattr(datasets.Image, "decode_example", refuse)
        split = open_documents(task, cache).test
        assert split.columns == ("question", "image", "several", "deep", "length")
        assert split.media_columns == ("image", "several")
        for i in range(2):
            doc = split.document(i)
            assert set(doc) == {"question", "deep", "length"}
            assert doc["deep"]["n"] == i
            assert doc["deep"]["image"]["bytes"].startswith(b"\xff\xd8")
        assert len(split.digest(range(2))) == 32

    def test_a_damaged_picture_is_told_with_its_document(self, folder: Path, cache: Path) -> None:
        split = open_documents(self._task(folder), cache).test
        with pytest.raises(DataError) as caught:
            split.document(1, media=True)
        assert str(caught.value) == (
            f"{folder}/task.yaml:4  document 1 of split 'test': column 'image' cannot be read: "
            "Pillow cannot read it as a picture."
        )

    def test_pictures_are_as_the_library_gives_them(self, folder: Path, cache: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        cells = [picture_bytes(), picture_bytes("PNG"), picture_bytes("JPEG", exif=exif)]
        rows = [{"image": row_of(each), "several": [row_of(each)] * 2} for each in cells]
        rows.append({"image": None, "several": []})
        features = datasets.Features(
            image=datasets.Image(), several=datasets.List(datasets.Image(mode="L"))
        )
        _save_parquet(folder / "rows.parquet", rows, features)
        text = "dataset_path: parquet\ndataset_kwargs: {data_files: rows.parquet}\n"
        split = open_documents(write_task(folder, text + "test_split: train"), cache).test
        theirs = datasets.Dataset.from_list(rows, features=features)
        for i in range(4):
            mine, other = split.document(i, media=True), theirs[i]
            assert mine["image"] == other["image"]
            assert mine["several"] == other["several"]
        assert split.document(0) == {}

    def test_sounds_stay_encoded_and_need_no_decoder(self, folder: Path, cache: Path) -> None:
        sound = {"bytes": b"RIFF", "path": "owl.wav"}
        rows = [{"question": "", "image": row_of(picture_bytes()), "sound": sound}]
        features = _features(image=datasets.Image(), sound=datasets.Audio())
        _save_parquet(folder / "r.parquet", rows, features)
        text = "dataset_path: parquet\ndataset_kwargs: {data_files: r.parquet}\ntest_split: train"
        split = open_documents(write_task(folder, text), cache).test
        assert split.media_columns == ("image", "sound")
        assert split.document(0, media=True)["sound"] == sound

    def test_only_the_header_of_a_picture_is_read(self, folder: Path, cache: Path) -> None:
        rows = [{"question": "", "image": row_of(picture_bytes("PNG")[:50])}]
        _save_parquet(folder / "r.parquet", rows, _features(image=datasets.Image()))
        text = "dataset_path: parquet\ndataset_kwargs: {data_files: r.parquet}\ntest_split: train"
        image = open_documents(write_task(folder, text), cache).test.document(0, media=True)[
            "image"
        ]
        assert image.size == (12, 8)
        with pytest.raises(OSError, match="truncated"):
            image.load()

    def test_a_table_may_name_image_files_beside_the_task(self, folder: Path, cache: Path) -> None:
        (folder / "photos").mkdir()
        (folder / "photos" / "owl.jpg").write_bytes(picture_bytes())
        (folder / "a.csv").write_text("image,label\nphotos/owl.jpg,Owl\n")
        text = """
            dataset_path: csv
            dataset_kwargs: {data_files: a.csv%s}
            test_split: train
        """
        code = """
            import datasets
            kinds = datasets.Features(image=datasets.Image(), label=datasets.Value("string"))
        """
        typed = ", features: !function utils.kinds"

        def opened() -> tuple[Split, Split]:
            plain = open_documents(write_task(folder, text % ""), cache).test
            return plain, open_documents(write_task(folder, text % typed, code), cache).test

        plain, pictures = opened()
        assert plain.document(0) == {"image": "photos/owl.jpg", "label": "Owl"}
        assert pictures.document(0) == {"label": "Owl"}
        assert pictures.document(0, media=True)["image"].size == (12, 8)
        before = [each.digest([0]) for each in opened()]
        assert [plain.digest([0]), pictures.digest([0])] == before
        (folder / "photos" / "owl.jpg").write_bytes(picture_bytes(colour=(1, 2, 3)))
        after = [each.digest([0]) for each in opened()]
        assert after[0] != before[0]
        assert after[1] != before[1]


class TestProcessDocs:
    def test_each_named_split_is_processed_once(self, folder: Path, cache: Path) -> None:
        code = """
            calls = []
            def process(docs):
                calls.append(len(docs))
                return docs.map(lambda doc: {"calls": list(calls)})
        """
        write_jsonl(folder / "data" / "train.jsonl", ROWS[:2])
        text = """
            dataset_path: json
            dataset_kwargs: {data_files: {test: data/rows.jsonl, train: data/train.jsonl}}
            test_split: test
            fewshot_split: train
            process_docs: !function utils.process
        """
        documents = open_documents(write_task(folder, text, code), cache)
        for _ in range(2):
            assert documents.test.document(4)["calls"] == [5]
            shots = documents.fewshot
            assert shots is not None
            assert shots.document(0)["calls"] == [5, 2]

    def test_draws_do_not_depend_on_what_ran_before(self, folder: Path, cache: Path) -> None:
        import random

        import numpy as np

        code = """
            import random
            import numpy as np
            def process(docs):
                keep = random.sample(range(len(docs)), 3)
                return docs.select([*keep, int(np.random.randint(5))])
        """
        task = write_task(folder, JSONL + "process_docs: !function utils.process\n", code)
        seen = []
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)
            before = random.getstate()
            split = open_documents(task, cache).test
            seen.append([split.document(i) for i in range(4)])
            assert random.getstate() == before
        assert seen[0] == seen[1]

    def test_one_process_works_whatever_the_code_asks_for(self, folder: Path, cache: Path) -> None:
        code = """
            import os
            def process(docs):
                kept = docs.filter(lambda doc: True, num_proc=3)
                return kept.map(lambda doc: {"pid": os.getpid()}, num_proc=4)
        """
        import os

        task = write_task(folder, JSONL + "process_docs: !function utils.process\n", code)
        assert open_documents(task, cache).test.document(0)["pid"] == os.getpid()

    def test_changed_code_is_not_answered_from_a_cache(self, folder: Path, cache: Path) -> None:
        """`datasets` hashes the function, not what it imports: it would keep the old rows."""
        code = "from other import word\ndef process(docs):\n    return docs.map(add)\n"
        code += "def add(doc):\n    return {'word': word()}\n"
        text = JSONL + "process_docs: !function utils.process\n"
        seen = []
        for word in ("first", "second"):
            (folder / "other.py").write_text(f"def word():\n    return {word!r}\n")
            task = write_task(folder, text, f"{code}# {word}\n")
            seen.append(open_documents(task, cache).test.document(0)["word"])
        assert seen == ["first", "second"]

    def test_filters_see_whole_rows(self, folder: Path, cache: Path) -> None:
        code = """
            def process(docs):
                docs = docs.filter(lambda doc: doc["answer"] != "0" and "options" in doc)
                docs = docs.filter(lambda doc, i: i != 0 and len(doc) == 3, with_indices=True)
                docs = docs.filter(lambda answer: answer != "2", input_columns="answer")
                docs = docs.filter(lambda rows: [a != "3" for a in rows["answer"]], batched=True)
                return docs.filter(changes)
            def changes(doc):
                doc["new"] = dict(doc)
                del doc["answer"]
                return set(doc) == {"question", "options", "new"} and doc.get("none") is None
        """
        task = write_task(folder, JSONL + "process_docs: !function utils.process\n", code)
        split = open_documents(task, cache).test
        assert [split.document(i) for i in range(len(split))] == [ROWS[4]]

    def test_a_function_hung_on_the_rows_is_used(self, folder: Path, cache: Path) -> None:
        code = """
            def process(docs):
                return docs.with_transform(loud)
            def loud(rows):
                return {"loud": [each.upper() for each in rows["question"]]}
        """
        task = write_task(folder, JSONL + "process_docs: !function utils.process\n", code)
        split = open_documents(task, cache).test
        assert split.document(1) == {"loud": "WHICH 1?"}
        assert split.columns == ("loud",)

    def test_mistakes_are_one_line(self, folder: Path, cache: Path) -> None:
        text = JSONL + "process_docs: !function utils.process\n"
        task = write_task(folder, text, "def process(docs):\n    return list(docs)")
        with pytest.raises(UsageError, match="utils.process gave a list: a datasets.Dataset is"):
            open_documents(task, cache).test  # noqa: B018
        code = "def process(docs):\n    return docs.map(lambda doc: {'x': doc['none']})"
        with pytest.raises(UsageError, match=r"task.yaml:5  process failed: .*KeyError: 'none'"):
            open_documents(write_task(folder, text, code), cache).test  # noqa: B018


class TestManners:
    def test_nothing_is_said_and_everything_is_put_back(
        self, folder: Path, cache: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        import huggingface_hub

        def state() -> list[Any]:
            return [
                datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE,
                datasets.is_caching_enabled(), datasets.utils.are_progress_bars_disabled(),
                huggingface_hub.utils.are_progress_bars_disabled(),
                datasets.logging.get_verbosity(), huggingface_hub.logging.get_verbosity(),
                datasets.Dataset.map, datasets.Dataset.filter,
            ]  # fmt: skip

        datasets.logging.set_verbosity(logging.INFO)
        before = state()
        code = "def process(docs):\n    return docs.map(lambda doc: doc).filter(lambda doc: True)"
        task = write_task(folder, JSONL + "process_docs: !function utils.process\n", code)
        open_documents(task, cache).test.document(0, media=True)
        assert state() == before
        datasets.logging.set_verbosity_warning()
        assert capfd.readouterr() == ("", "")

    def test_tables_are_kept_below_the_cache(self, folder: Path, cache: Path) -> None:
        files = set(folder.rglob("*"))
        task = write_task(folder, JSONL)
        documents = open_documents(task, cache)
        kept = [Path(each["filename"]) for each in documents.test._data.cache_files]
        assert kept
        assert all(each.is_relative_to(cache) for each in kept)
        assert set(folder.rglob("*")) - files == {folder / "task.yaml"}

    def test_a_saved_table_gets_no_files_beside_it(self, folder: Path, cache: Path) -> None:
        datasets.Dataset.from_list(ROWS).save_to_disk(folder / "saved")
        before = sorted((folder / "saved").iterdir())
        text = """
            dataset_path: saved
            dataset_kwargs: {load_from_disk: true}
            test_split: test
            process_docs: !function utils.process
        """
        code = "def process(docs):\n    return docs.map(lambda doc: {'x': 1})"
        assert open_documents(write_task(folder, text, code), cache).test.document(0)["x"] == 1
        assert sorted((folder / "saved").iterdir()) == before

    def test_keys_that_do_nothing_here_are_noted(self, folder: Path, cache: Path) -> None:
        text = """
            dataset_path: json
            dataset_kwargs:
              data_files: data/rows.jsonl
              token: true
              trust_remote_code: true
              cache_dir: somewhere
              video: true
              create_link: false
              num_proc: 8
            test_split: train
        """
        documents = open_documents(write_task(folder, text), cache)
        assert len(documents.test) == 5
        place = f"{folder}/task.yaml:9"
        assert documents.notes == (f"{place}  video has no effect here: videos are not fetched.",)


class TestSplits:
    def _documents(self, folder: Path, cache: Path, splits: str) -> Documents:
        files = "{a: data/rows.jsonl, b: data/rows.jsonl}"
        text = f"dataset_path: json\ndataset_kwargs: {{data_files: {files}}}\n"
        return open_documents(write_task(folder, text + splits), cache)

    @pytest.mark.parametrize(
        ("splits", "test", "fewshot"),
        [
            ("test_split: a", "a", None),
            ("validation_split: a", "a", None),
            ("test_split: a\nvalidation_split: b", "a", "b"),
            ("test_split: a\ntraining_split: b\nvalidation_split: a", "a", "b"),
            ("test_split: a\nfewshot_split: b", "a", "b"),
            ("test_split: a\nfewshot_split: a\ntraining_split: b", "a", "a"),
            ("test_split: a\ntraining_split: a", "a", None),
        ],
    )
    def test_which_is_asked_and_which_is_shown(
        self, folder: Path, cache: Path, splits: str, test: str, fewshot: str | None
    ) -> None:
        documents = self._documents(folder, cache, splits)
        shown = documents.fewshot
        assert (documents.test.name, shown.name if shown else None) == (test, fewshot)
        assert (shown is documents.test) == (fewshot == test)

    def test_a_missing_split_is_told_with_those_there_are(self, folder: Path, cache: Path) -> None:
        documents = self._documents(folder, cache, "test_split: A")
        with pytest.raises(DataError) as caught:
            documents.test  # noqa: B018
        assert str(caught.value) == (
            f"{folder}/task.yaml:4  the dataset has no split 'A', it has a, b. Did you mean 'a'?"
        )

    def test_a_task_without_a_split_and_a_split_without_rows(
        self, folder: Path, cache: Path
    ) -> None:
        with pytest.raises(UsageError, match="names neither test_split nor validation_split"):
            self._documents(folder, cache, "training_split: a").test  # noqa: B018
        code = "def process(docs):\n    return docs.select([])"
        task = write_task(folder, JSONL + "process_docs: !function utils.process\n", code)
        with pytest.raises(DataError, match="split 'train' contains no documents"):
            open_documents(task, cache).test  # noqa: B018

    def test_documents_are_made_anew(self, folder: Path, cache: Path) -> None:
        split = open_documents(write_task(folder, JSONL), cache).test
        split.document(0)["options"].append("c")
        assert split.document(0) == ROWS[0]
        for index in (-1, 5):
            with pytest.raises(IndexError):
                split.document(index)


class TestDigest:
    def _split(self, rows: list[dict[str, Any]], **features: Any) -> Split:
        made = datasets.Features(features) if features else None
        return Split(datasets.Dataset.from_list(rows, features=made), "test")

    def test_it_stands_for_content_and_order(self) -> None:
        rows = [{"a": "x", "b": [1, 2]}, {"a": "y", "b": []}]
        split = self._split(rows)
        assert split.digest([0, 1]) == self._split(rows).digest([0, 1])
        assert split.digest([0, 1]) != split.digest([1, 0]) != split.digest([0])
        assert split.digest([0]) == self._split(rows[:1]).digest([0])
        for other in ({"a": "x", "b": [1, 3]}, {"a": "x", "c": [1, 2]}, {"a": None, "b": [1, 2]}):
            assert self._split([other]).digest([0]) != split.digest([0])

    def test_many_rows_are_one_after_the_other(self) -> None:
        rows = [{"a": i} for i in range(100)]
        assert self._split(rows).digest(range(100)) == self._split(rows * 2).digest(range(100, 200))
        assert self._split(rows).digest(range(99)) != self._split(rows).digest(range(100))

    def test_pictures_count_by_their_bytes_wherever_they_lie(self, tmp_path: Path) -> None:
        data = picture_bytes()
        cells = [row_of(data)]
        for name in ("here", "there"):
            (tmp_path / name).write_bytes(data)
            cells.append({"bytes": None, "path": str(tmp_path / name)})
        digests = {self._split([{"i": each}], i=datasets.Image()).digest([0]) for each in cells}
        assert len(digests) == 1
        other = self._split([{"i": row_of(data + b"x")}], i=datasets.Image())
        assert other.digest([0]) not in digests


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("dataset_path: json\ndataset_kwargs: {data_files: data/row.jsonl}",
             "3  data_files 'data/row.jsonl' does not exist. Did you mean 'rows.jsonl'?"),
            ("dataset_path: json\ndataset_kwargs: {data_files: 'data/*.csv'}",
             "3  data_files 'data/*.csv' does not exist. It was looked for in "),
            ("dataset_path: imagefolder\ndataset_kwargs: {data_dir: photos}",
             "3  data_dir 'photos' does not exist."),
            ("dataset_path: csv", "2  dataset_path 'csv' reads files: name them with "),
            ("dataset_path: ./nowhere", "2  folder './nowhere' does not exist."),
            ("dataset_path: nowhere\ndataset_kwargs: {load_from_disk: true}",
             "2  folder 'nowhere' does not exist."),
            ("dataset_path: json\ndataset_kwargs: {data_files: https://x.org/a.json}",
             "3  'https://x.org/a.json' is not on this machine: `--fetch` downloads it."),
            ("dataset_path: json\ndataset_kwargs: {data_files: {train: [hf://datasets/a/b/c.json]}}",
             "3  'hf://datasets/a/b/c.json' is not on this machine: `--fetch` downloads it."),
            ("dataset_path: acme/birds\ndataset_kwargs: {data_files: s3://b/c.json}",
             "3  's3://b/c.json' is not on this machine: `--fetch` downloads it."),
            ("dataset_path: acme/birds\ndataset_name: song",
             "2  dataset 'acme/birds' (song) is not on this machine: `--fetch` downloads it."),
            ("metadata: {version: 1}", "1  dataset_path is missing: no documents to ask."),
        ],
    )  # fmt: skip
    def test_one_line_each(self, folder: Path, cache: Path, text: str, line: str) -> None:
        task = write_task(folder, f"{text}\ntest_split: train")
        with pytest.raises((DataError, UsageError)) as caught:
            open_documents(task, cache)
        assert str(caught.value).startswith(f"{folder}/task.yaml:{line}")
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("rows.json", b'{"a": 1}\n{"a": '),
            ("rows.parquet", b"PAR1 no table"),
            ("rows.csv", b"a,b\n1\n2,3,4,5\n"),
            ("rows.json", b""),
        ],
    )
    def test_damaged_files(self, folder: Path, cache: Path, name: str, content: bytes) -> None:
        (folder / name).write_bytes(content)
        kind = name.rpartition(".")[2]
        text = f"dataset_path: {kind}\ndataset_kwargs: {{data_files: {name}}}\ntest_split: train"
        with pytest.raises(DataError) as caught:
            open_documents(write_task(folder, text), cache).test  # noqa: B018
        assert str(caught.value).startswith(f"{folder}/task.yaml:")
        assert "\n" not in str(caught.value)

    def test_an_unknown_option_of_the_builder(self, folder: Path, cache: Path) -> None:
        text = "dataset_path: json\ndataset_kwargs: {data_files: data/rows.jsonl, colour: red}\n"
        with pytest.raises(DataError, match="dataset_kwargs has 'colour', no option of 'json'"):
            open_documents(write_task(folder, text + "test_split: train"), cache)


CARD = """---
configs:
- config_name: default
  data_files:
  - split: test
    path: t.jsonl
---
"""


def test_folders_of_one_name_with_a_card_never_share_a_table(tmp_path: Path, cache: Path) -> None:
    """Defect: the library keeps a prepared table by the base name of such a folder."""

    def answers(place: str) -> list[str]:
        task = write_task(tmp_path / place, "dataset_path: ./birds\ntest_split: test\n")
        every = open_documents(task, cache).test
        return [every.document(row)["answer"] for row in range(len(every))]

    for place in ("one", "two"):
        write_jsonl(tmp_path / place / "birds" / "t.jsonl", [{"answer": place}])
        (tmp_path / place / "birds" / "README.md").write_text(CARD)
    assert answers("one") == ["one"] and answers("two") == ["two"]
    path = tmp_path / "one" / "birds" / "t.jsonl"
    before = path.stat()
    write_jsonl(path, [{"answer": "new"}])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert answers("one") == ["new"]
