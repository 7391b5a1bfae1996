"""Flag > environment > project > user > default; each value knows where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UsageError
from fieldmark.settings import load_settings, user_config


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FIELDMARK_CACHE")
    user_config().parent.mkdir(parents=True)
    user_config().write_text(
        'device = "cpu"\nprecision = "float32"\nthreads = 3\n[data]\nnewt = "/u/newt"\n'
    )
    project = tmp_path / "project"
    (project / "deep").mkdir(parents=True)
    (project / "fieldmark.toml").write_text(
        'device = "cuda:1"\nthreads = 4\nresults = "out"\n[data]\nages = "a"\n'
    )
    monkeypatch.setenv("FIELDMARK_THREADS", "5")
    monkeypatch.setenv("FIELDMARK_DATA_BELUGA", "/env/beluga")
    return project


def test_precedence_and_origin(layers: Path) -> None:
    settings = load_settings({"threads": 6}, start=layers / "deep")
    assert (settings.threads, settings.device, settings.precision) == (6, "cuda:1", "float32")
    assert load_settings(start=layers).threads == 5
    assert settings.results == layers / "out"
    assert settings.origin["threads"] == "flag"
    assert settings.origin["device"] == str(layers / "fieldmark.toml")
    assert settings.origin["precision"] == str(user_config())
    assert settings.root_of("newt") == Path("/u/newt")
    assert settings.root_of("ages") == layers / "a"
    assert settings.root_of("beluga") == Path("/env/beluga")
    assert settings.root_of("kabr") == Path("data/kabr")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('devise = "cpu"', "setting 'devise' is not known. Did you mean 'device'?"),
        ('threads = "many"', "threads = 'many': expected a whole number, 0 or more."),
        ("threads = true", "threads = True: expected a whole number, 0 or more."),
        ('bad_images = "ignore"', "bad_images = 'ignore': expected fail or skip."),
        ('offline = "perhaps"', "offline = 'perhaps': expected true or false."),
        ("device = 3", "device = 3: expected text."),
        ('decode = "fast"', "decode = 'fast': expected auto, reference, cpu or gpu."),
        ('device = "gpu"', "device = 'gpu': expected auto, cpu, cuda, cuda:N or mps."),
    ],
)
def test_faults_in_the_project_file(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "fieldmark.toml"
    path.write_text(f"# a comment\n{text}\n")
    with pytest.raises(UsageError) as caught:
        load_settings(start=tmp_path)
    assert str(caught.value) == f"{path}:2  {line}"


def test_the_way_photos_are_read(layers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(start=layers).decode == "auto"
    monkeypatch.setenv("FIELDMARK_DECODE", "cpu")
    assert load_settings(start=layers).decode == "cpu"
    assert load_settings({"decode": "reference"}, start=layers).decode == "reference"
    monkeypatch.setenv("FIELDMARK_DECODE", "pillow")
    with pytest.raises(UsageError, match=r"FIELDMARK_DECODE  decode = 'pillow': expected auto, re"):
        load_settings(start=layers)


def test_unknown_variable_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDMARK_DEVISE", "cpu")
    with pytest.raises(
        UsageError, match=r"FIELDMARK_DEVISE  is not a setting.* Did you mean FIELDMARK_DEVICE\?"
    ):
        load_settings()
