"""Any list is an axis; small-data-metrics files load as they are; all faults are told at once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import polars as pl
import pytest

from fieldmark.cli import main
from fieldmark.errors import UsageError
from fieldmark.experiments import read_grid
from fieldmark.experiments._file import NewtFilters
from fieldmark.experiments._grid import select
from fieldmark.protocols import given
from fieldmark.store import Store
from fieldmark.tasks.split import PartItems, is_selected
from kit.blobs import make_blobs

SMALL_DATA = """
n_train = [10, 30, 100, 300, -1]
n_test = [-1]

newt_data = "/datasets/newt"

ssl = false

[[models]]
method = "cvml"
org = "open-clip"
ckpt = "ViT-B-16/openai"
[[models]]
method = "cvml"
org = "timm-vit"
ckpt = "vit_small_patch14_reg4_dinov2.lvd142m"
[[models]]
method = "cvml"
org = "open-clip"
ckpt = "hf-hub:imageomics/bioclip"
"""

SMALL_DATA_CHAT = """
prompting = ["single", "multi"]
cot_enabled = false
n_train = [0, 1, 3]
n_test = 100
newt_data = "datasets/newt"

[[models]]
method = "mllm"
org = "openrouter"
ckpt = "google/gemini-flash-1.5-8b"

[newt]
tasks = ["ml_age_coopers_hawk", "ml_bio_has_red_eyes"]
include_clusters = ["appearance"]
exclude_subclusters = ["species"]
"""


NAP_S = 0.02
SLEEPY = f"""
import time

import numpy as np


class Sleepy:
    def fit(self, X, y):
        time.sleep({NAP_S})
        self.first_ = y[0]
        return self

    def predict(self, X):
        return np.full(len(X), self.first_)
"""


def grid(tmp_path: Path, text: str):  # type: ignore[no-untyped-def]
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return read_grid(path)


def test_small_data_metrics_file_loads_unchanged(tmp_path: Path) -> None:
    read = grid(tmp_path, SMALL_DATA.replace("ssl = false", "device = 'cuda'"))
    assert len(read.jobs) == 3 * 5
    assert [job.model for job in read.jobs[::5]] == [
        "open-clip/ViT-B-16/openai",
        "timm/vit_small_patch14_reg4_dinov2.lvd142m",
        "open-clip/hf-hub:imageomics/bioclip",
    ]
    assert [job.draw.n_train for job in read.jobs[:5]] == [10, 30, 100, 300, -1]
    assert {job.task.task for job in read.jobs} == {"newt"}
    assert read.data["newt"] == Path("/datasets/newt")
    assert len(read.notes) == 1 and read.notes[0].startswith(f"{tmp_path / 'grid.toml'}:7  device")


def test_small_data_metrics_chat_file_loads_unchanged(tmp_path: Path) -> None:
    read = grid(tmp_path, SMALL_DATA_CHAT)
    assert len(read.jobs) == 3 * 2
    job = read.jobs[0]
    assert (job.model, job.protocol) == ("chat/openrouter/google/gemini-flash-1.5-8b", "ask")
    assert given(job.settings) == {"prompting": "single", "cot_enabled": False}
    assert job.draw.parts.parts == ("ml_age_coopers_hawk", "ml_bio_has_red_eyes")
    assert job.draw.parts.groups == (("cluster", ("appearance",)),)
    assert job.draw.parts.without_groups == (("sub_cluster", ("species",)),)
    assert read.data["newt"] == tmp_path / "datasets/newt"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("parallel = 10", "parallel = 10: remove it and type `fieldmark run … --concurrency 10`."),
        ("slurm = true", "slurm = True: remove it and type `fieldmark run … --on slurm`, or"),
        ('slurm_acct = "PAS1"', 'remove it and write `account = "PAS1"` in a table [slurm]'),
        ("ssl = false", "ssl = False: remove it and let certificates be checked"),
    ],
)
def test_keys_that_a_run_would_pass_over_stop_it(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        grid(tmp_path, f"{line}\n{SMALL_DATA_CHAT}")
    assert str(error.value).startswith(f"{tmp_path / 'grid.toml'}:1  ")
    assert words in str(error.value)


def test_keys_at_their_usual_value_stop_nothing(tmp_path: Path) -> None:
    usual = 'slurm = false\nslurm_acct = ""\nssl = true\n'
    assert grid(tmp_path, usual + SMALL_DATA_CHAT).jobs


def test_a_file_of_theirs_without_n_train_shows_all_that_fit(tmp_path: Path) -> None:
    theirs = SMALL_DATA_CHAT.replace("n_train = [0, 1, 3]\n", "")
    assert {job.draw.n_train for job in grid(tmp_path, theirs).jobs} == {-1}
    ours = 'models = "chat/openrouter/openai/gpt-4o-mini-2024-07-18"\ntasks = "newt"\n'
    assert {job.draw.n_train for job in grid(tmp_path, ours).jobs} == {0}


@pytest.mark.parametrize(
    "org", ["gemini", "groq", "together_ai", "fireworks_ai", "deepseek", "mistral", "xai"]
)
def test_providers_by_litellms_words(tmp_path: Path, org: str) -> None:
    text = SMALL_DATA_CHAT.replace('org = "openrouter"', f'org = "{org}"')
    assert grid(tmp_path, text).jobs[0].protocol == "ask"


def include_task(filters: dict[str, list[str]], task: str, cluster: str, sub: str) -> bool:
    """small-data-metrics' rule: exclusions first, then any inclusion that matches."""
    mine = {"tasks": task, "clusters": cluster, "subclusters": sub}
    for key, value in mine.items():
        if value in filters.get(f"exclude_{key}", []):
            return False
    names = {"tasks": "tasks", "clusters": "include_clusters", "subclusters": "include_subclusters"}
    asked = [(filters[name], mine[key]) for key, name in names.items() if filters.get(name)]
    return not asked or any(value in wanted for wanted, value in asked)


@pytest.mark.parametrize(
    "filters",
    [
        {"tasks": ["c"], "include_clusters": ["behavior"], "include_subclusters": ["age"]},
        {"include_clusters": [], "tasks": ["a"]},
        {"include_clusters": [], "include_subclusters": []},
        {"include_clusters": ["appearance"], "exclude_subclusters": ["age"]},
        {"include_subclusters": ["species"], "exclude_tasks": ["b"], "tasks": ["d"]},
    ],
)
def test_filters_take_what_any_of_them_matches(filters: dict[str, list[str]]) -> None:
    rows = [("a", "appearance", "age"), ("b", "appearance", "species"), ("c", "context", ""),
            ("d", "behavior", "")]  # fmt: skip
    parts = [
        PartItems(
            name, pl.DataFrame(), pl.DataFrame(), (("cluster", cluster), ("sub_cluster", sub))
        )
        for name, cluster, sub in rows
    ]
    wanted = select("newt", NewtFilters(**filters))
    taken = [part.name for part in parts if is_selected(part, wanted)]
    assert taken == [row[0] for row in rows if include_task(filters, *row)]


def test_own_format_every_list_is_an_axis(tmp_path: Path) -> None:
    read = grid(
        tmp_path,
        'models = ["classical/colour", "classical/pixels"]\ntasks = ["beluga", "newt/behavior"]\n'
        'n_train = [5, -1]\nseed = [0, 1, 2]\nsampling = "uniform"\n'
        '[probe]\nclassifier = ["simpleshot", "ridge"]\nnormalise = ["centre", "l2"]\n'
        '[data]\nbeluga = "b"\n',
    )
    assert len(read.jobs) == 2 * 2 * 2 * 3 * 2
    assert {job.task.block("probe").classifier for job in read.jobs} == {"simpleshot", "ridge"}
    assert {job.task.block("probe").normalise for job in read.jobs} == {("centre", "l2")}
    assert {job.draw.sampling for job in read.jobs} == {"uniform"}
    assert {job.draw.parts.any_of for job in read.jobs} == {(), ("behavior",)}
    assert read.data == {"beluga": tmp_path / "b"}


def test_a_pattern_of_models_is_all_that_fit(tmp_path: Path) -> None:
    read = grid(tmp_path, 'models = ["classical/co*", "classical/all"]\ntasks = ["beluga"]\n')
    assert [job.model for job in read.jobs] == ["classical/colour", "classical/all"]
    with pytest.raises(UsageError, match=r"grid.toml:1  no model fits 'clasical/\*'"):
        grid(tmp_path, 'models = ["clasical/*"]\ntasks = ["beluga"]\n')


def test_defect_small_data_exactly_one_config(tmp_path: Path) -> None:
    """Defect: with exactly one configuration its path was used in its place."""
    read = grid(tmp_path, 'models = "classical/colour"\ntasks = "beluga"\n')
    assert [job.model for job in read.jobs] == ["classical/colour"]


def test_changed_parameters_keep_the_classifier(tmp_path: Path) -> None:
    read = grid(tmp_path, 'models = "classical/colour"\ntasks = "beluga"\n[probe]\nk = [1, 3]\n')
    assert [job.task.block("probe").params["k"] for job in read.jobs] == [1, 3]
    assert all(job.task.block("probe").leave_one_out for job in read.jobs)


def test_defect_small_data_no_models_silently_nothing(tmp_path: Path) -> None:
    """Defect: a file without [[models]] gave zero experiments, silently."""
    with pytest.raises(UsageError, match=r"grid\.toml  lists no models"):
        grid(tmp_path, "n_train = [1]\nnewt_data = 'x'\n")


def test_all_unknown_names_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        grid(tmp_path, 'models = ["classical/color", "tim/resnet18"]\ntasks = ["belugga"]\n')
    told = str(caught.value).splitlines()
    assert len(told) == 4 and told[-1] == "3 problems, nothing was started."
    assert all(line.startswith(str(tmp_path / "grid.toml")) for line in told[:-1])
    assert "Did you mean 'beluga'?" in told[0]


@pytest.mark.parametrize("key", ["newt_data", "newt_root"])
def test_defect_small_data_shipped_configs_say_another_key(tmp_path: Path, key: str) -> None:
    read = grid(tmp_path, f'{key} = "x"\nmodels = "classical/colour"\n')
    assert read.data == {"newt": tmp_path / "x"}
    assert [job.task.task for job in read.jobs] == ["newt"]


def test_settings_of_ask_that_are_zero_or_false_are_given(tmp_path: Path) -> None:
    text = (
        'models = ["chat/mock/wren"]\ntasks = ["world-stage"]\ntemp = [0, 0.7]\ncircular = false\n'
    )
    asked = [given(job.settings) for job in grid(tmp_path, text).jobs]
    assert asked == [{"temp": 0.0, "circular": False}, {"temp": 0.7, "circular": False}]
    with pytest.raises(UsageError, match="temp"):
        grid(tmp_path, text.replace("[0, 0.7]", "[]"))


def test_what_changes_no_answer_may_be_given_beside_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'models = ["chat/mock/wren"]\ntasks = ["world-stage"]\nmax_usd = 9\ntemp = [0, 1]\n'
    path = tmp_path / "grid.toml"
    path.write_text(text)
    jobs = read_grid(path, how={"max_usd": 2.5, "concurrency": 3}).jobs
    assert [(job.settings.max_usd, job.settings.concurrency) for job in jobs] == [(2.5, 3)] * 2
    assert [given(job.settings) for job in jobs] == [{"temp": 0.0}, {"temp": 1.0}]
    assert main(["plan", str(path), "--max-usd", "2.5", "--rpm", "60"]) == 0
    assert main(["plan", str(path), "--temp", "1"]) == 2
    assert "by a file or by flags, not both" in capsys.readouterr().err


def test_jobs_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    lists = 'models = ["classical/colour", "classical/chance"]\ntasks = ["newt@simpleshot"]\n'
    svm = '[[probe]]\nclassifier = "svm"\nsearch = 0\nC = [0.1, 1.0]\n'
    neighbours = '[[probe]]\nclassifier = "neighbours"\n'
    jobs = grid(tmp_path, f"{lists}seed = [3, 4]\n{svm}{neighbours}").jobs
    titles = [job.title for job in jobs]
    assert len(set(titles)) == len(titles) == 2 * 2 * 3
    start = "classical/colour · newt@simpleshot · "
    assert [title for title in titles if title.startswith(start) and title.endswith("seed 3")] == [
        f"{start}probe/svm, C=0.1 · seed 3",
        f"{start}probe/svm, C=1.0 · seed 3",
        f"{start}probe/neighbours · seed 3",
    ]
    alone = grid(tmp_path, lists).jobs
    assert [job.label for job in alone] == ["", ""]


def test_repeats_do_not_multiply_the_time_a_run_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plan` foretells from what runs took: six repeats took as long as they took together."""
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)  # young files would count as unknown
    place = make_blobs(tmp_path, monkeypatch)
    (place / "probe.py").write_text(SLEEPY)
    words = ["--model", "m.py:Slow", "--task", "blobs.yaml", "--probe", "probe.py:Sleepy"]
    words += ["--repeats", "6", "--n-train", "6"]
    began = time.monotonic()
    assert main(["run", *words, "--quiet"]) == 0
    took_s = time.monotonic() - began
    with Store.open(place / "results" / "fieldmark.db") as store:
        [run] = store.runs()
    n_fits = 6 * len(run.spec.settings["parts"])
    assert n_fits * NAP_S <= (run.seconds or 0) <= took_s
    capsys.readouterr()
    assert main(["plan", *words[:-4], "--repeats", "3", "--n-train", "6", "--json"]) == 0
    foretold_s = json.loads(capsys.readouterr().out)["seconds"]
    assert foretold_s == pytest.approx((run.seconds or 0) / 2)
