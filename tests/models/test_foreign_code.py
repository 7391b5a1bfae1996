"""No model runs code that its files bring, unless the user's own word names it."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.errors import ModelError
from fieldmark.models import load_model
from fieldmark.settings import load_settings
from kit.tiny_chat import load_tiny, save_tiny

CODE = """
from pathlib import Path
from transformers import PretrainedConfig
Path({marker!r}).write_text("ran")
class C(PretrainedConfig):
    model_type = "evil"
"""


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A folder whose configuration is a class of its own."""
    folder = tmp_path / "evil"
    folder.mkdir()
    config = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(CODE.format(marker=str(tmp_path / "marker")))
    return folder


def test_defect_third_look_n1_a_yes_from_a_pipe_runs_no_code(evil: Path, tmp_path: Path) -> None:
    script = f"from fieldmark.models import load_model; load_model('hf/{evil}', device='cpu')"
    done = subprocess.run(
        [sys.executable, "-c", script], input="yes\n" * 100, text=True, capture_output=True,
        env=os.environ | {"HF_MODULES_CACHE": str(tmp_path / "modules")}, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "Do you wish to run" not in done.stdout + done.stderr
    assert not (tmp_path / "marker").exists()
    text = done.stderr.strip().splitlines()[-1]
    assert "brings Python code of its own, which was not run" in text
    assert f'trust_code = ["hf/{evil}"]' in text


def test_the_user_may_trust_a_model_by_name(
    evil: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("FIELDMARK_TRUST_CODE", "hf/some/other")
    with pytest.raises(ModelError, match="was not run"):
        load_model(f"hf/{evil}", device="cpu")
    monkeypatch.setenv("FIELDMARK_TRUST_CODE", f"hf/some/other,hf/{evil}")
    with pytest.raises(ModelError, match="transformers says"):  # it has no network to load
        load_model(f"hf/{evil}", device="cpu")
    assert (tmp_path / "marker").read_text() == "ran"


def test_another_folder_of_a_trusted_name_is_not_trusted(
    evil: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hf/org/model` is a folder where there is one, and else a repository."""
    (tmp_path / "org").mkdir()
    evil.rename(tmp_path / "org" / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("FIELDMARK_TRUST_CODE", "hf/org/model")
    with pytest.raises(ModelError, match=f'trust_code = ."hf/{tmp_path}/org/model"'):
        load_model("hf/org/model", device="cpu")
    assert not (tmp_path / "marker").exists()


PARTS = {
    "the text tower": {"hf_model_name": "{evil}", "hf_proj_type": "linear"},
    "the tokeniser": {"hf_tokenizer_name": "x", "width": 32, "heads": 2, "layers": 1},
    "its own permission": {
        "hf_tokenizer_name": "x",
        "width": 32,
        "heads": 2,
        "layers": 1,
        "tokenizer_kwargs": {"trust_remote_code": True},
    },
}


@pytest.mark.parametrize("part", PARTS)
def test_no_part_of_an_open_clip_model_brings_code(
    part: str, evil: Path, clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """open_clip loads them by transformers, and passes on what a model's configuration says."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "yes")
    folder = shutil.copytree(clip_folder, tmp_path / "clip")
    about = json.loads((folder / "open_clip_config.json").read_text())
    text = json.loads(json.dumps(PARTS[part]).replace("{evil}", str(evil)))
    about["model_cfg"]["text_cfg"] = text
    (folder / "open_clip_config.json").write_text(json.dumps(about))
    for file in ("config.json", "evil.py"):
        shutil.copy(evil / file, folder)
    own = {"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["evil.T", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="open_clip"):
        load_model(f"open-clip/local-dir:{folder}?pretrained=false").embed_texts(["a fox"])
    assert not (tmp_path / "marker").exists()


@pytest.mark.slow
def test_no_part_of_a_chat_model_brings_code(
    evil: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "yes")
    for file, kind in (
        ("tokenizer_config", "AutoTokenizer"),
        ("processor_config", "AutoProcessor"),
    ):
        folder = save_tiny("llava", tmp_path / kind)
        shutil.copy(evil / "evil.py", folder)
        about = json.loads((folder / f"{file}.json").read_text())
        about |= {
            "tokenizer_class": "T",
            "processor_class": "T",
            "auto_map": {kind: ["evil.T", None]},
        }
        (folder / f"{file}.json").write_text(json.dumps(about))
        with contextlib.suppress(ModelError):
            load_tiny(folder)
    assert not (tmp_path / "marker").exists()


def test_a_projects_file_cannot_trust_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fieldmark.toml").write_text('trust_code = ["hf/some/model"]\n')
    with pytest.raises(Exception, match="only you can set trust_code"):
        load_settings()
    Path("fieldmark.toml").unlink()
    monkeypatch.setenv("FIELDMARK_TRUST_CODE", "timm/x")
    with pytest.raises(Exception, match="expected names of models"):
        load_settings()


class Pickled:
    def __reduce__(self) -> Any:
        return os.system, ("touch marker",)


def test_defect_third_look_n10_pickled_checkpoints_are_refused_in_our_words(
    hf_folders: dict[str, Path],
    clip_folder: Path,
    make_photo: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They ended in exit 1 and torch's text, which advises `weights_only=False`."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, source, file in (
        ("hf", hf_folders["vit"], "pytorch_model.bin"),
        ("open-clip", clip_folder, "open_clip_pytorch_model.bin"),
    ):
        folder = tmp_path / kind
        shutil.copytree(source, folder)
        for path in folder.glob("*.safetensors"):
            path.unlink()
        (folder / file).write_bytes(pickle.dumps({"state_dict": Pickled()}))
        names[kind] = folder / file
    (tmp_path / "photos").mkdir()
    make_photo(0).save(tmp_path / "photos" / "a.png")
    (tmp_path / "own.pt").write_bytes(names["hf"].read_bytes())
    for name in (
        f"hf/{names['hf'].parent}",
        f"open-clip/local-dir:{names['open-clip'].parent}",
        f"open-clip/ViT-B-32/{tmp_path / 'own.pt'}",
    ):
        assert main(["embed", name, str(tmp_path / "photos")]) == 4
        told = capsys.readouterr().err
        assert "contains more than tensors and would have to run code to load" in told
        assert "weights_only" not in told and "Traceback" not in told
    assert not (tmp_path / "marker").exists()
