"""Any list is an axis; small-data-metrics files load as they are; all faults are told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.errors import UsageError
from fieldmark.experiments import read_grid
from fieldmark.protocols import given

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
parallel = 10
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


def grid(tmp_path: Path, text: str):  # type: ignore[no-untyped-def]
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return read_grid(path)


def test_small_data_metrics_file_loads_unchanged(tmp_path: Path) -> None:
    read = grid(tmp_path, SMALL_DATA)
    assert len(read.jobs) == 3 * 5
    assert [job.model for job in read.jobs[::5]] == [
        "open-clip/ViT-B-16/openai",
        "timm/vit_small_patch14_reg4_dinov2.lvd142m",
        "open-clip/hf-hub:imageomics/bioclip",
    ]
    assert [job.draw.n_train for job in read.jobs[:5]] == [10, 30, 100, 300, -1]
    assert {job.task.task for job in read.jobs} == {"newt"}
    assert read.data["newt"] == Path("/datasets/newt")
    assert len(read.notes) == 1 and read.notes[0].startswith(f"{tmp_path / 'grid.toml'}:7  ssl")


def test_small_data_metrics_chat_file_loads_unchanged(tmp_path: Path) -> None:
    read = grid(tmp_path, SMALL_DATA_CHAT)
    assert len(read.jobs) == 3 * 2
    job = read.jobs[0]
    assert (job.model, job.protocol) == ("chat/openrouter/google/gemini-flash-1.5-8b", "ask")
    assert given(job.settings) == {"prompting": "single", "cot_enabled": False}
    assert job.selection.parts == ("ml_age_coopers_hawk", "ml_bio_has_red_eyes")
    assert job.selection.groups == (("cluster", ("appearance",)),)
    assert job.selection.without_groups == (("sub_cluster", ("species",)),)
    assert read.data["newt"] == tmp_path / "datasets/newt"


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
    assert {job.selection.any_of for job in read.jobs} == {(), ("behavior",)}
    assert read.data == {"beluga": tmp_path / "b"}


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
