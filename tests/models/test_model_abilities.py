"""How a model can be asked, told without loading it, and the same once it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UnknownName, UsageError
from fieldmark.models import (
    abilities,
    abilities_of,
    families,
    load_chat_model,
    load_model,
    stand_in,
)
from fieldmark.models import register_model as register
from fieldmark.models._load import REGISTRY

IMAGES, TEXTS, ANSWERS, SCORES = (
    "embeds_images",
    "embeds_texts",
    "answers",
    "scores_continuations",
)

OWN = """
raise SystemExit("abilities must not run this file")

class Plain:
    dim = 3
    def transform(self, image): ...
    def embed_images(self, batch): ...

class Dual(Plain):
    logit_scale = 1.0
    def embed_texts(self, texts): ...

class Chat:
    def answer(self, messages, settings): ...
    async def score(self, messages, continuations): ...

class Torch(TorchBackbone):
    pass

class TorchDual(TorchBackbone):
    def embed_texts(self, texts): ...

class Circle(Circle):
    def answer(self, messages, settings): ...

def factory(width=3):
    return Dual()
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("classical/all", {IMAGES}),
        ("classical/words", {IMAGES, TEXTS}),
        ("timm/resnet18?pretrained=false", {IMAGES}),
        ("torchvision/resnet18", {IMAGES}),
        ("hf/facebook/dinov2-base", {IMAGES}),
        ("open-clip/ViT-B-16/openai", {IMAGES, TEXTS}),
        ("chat/openrouter/openai/gpt-4o-mini", {ANSWERS}),
        ("chat/mock/wren?skill=0.8", {ANSWERS}),
        ("hf-chat/Qwen/Qwen2.5-VL-7B-Instruct", {ANSWERS, SCORES}),
    ],
)
def test_families_say_how_they_can_be_asked(name: str, expected: set[str]) -> None:
    assert abilities(name) == expected


def test_every_family_has_an_ability() -> None:
    for family in families():
        assert abilities(f"{family}/any") <= {IMAGES, TEXTS, ANSWERS, SCORES}
        assert abilities(f"{family}/any")


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        ("Plain", {IMAGES}),
        ("Dual", {IMAGES, TEXTS}),
        ("Chat", {ANSWERS, SCORES}),
        ("Torch", {IMAGES}),
        ("TorchDual", {IMAGES, TEXTS}),
        ("Circle", {ANSWERS}),
        ("factory", {IMAGES}),
        ("missing", {IMAGES}),
    ],
)
def test_a_class_of_your_own_by_its_methods_without_running_it(
    tmp_path: Path, cls: str, expected: set[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    assert abilities(f"{path}:{cls}?width=4") == expected


def test_a_file_that_cannot_be_read_as_python_is_left_to_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("class Broken(:")
    assert abilities(f"{path}:Broken") == {IMAGES}
    with pytest.raises(UsageError, match="does not exist"):
        abilities(f"{tmp_path}/absent.py:Mine")


class Both:
    def embed_images(self, batch: object) -> None: ...

    def answer(self, messages: object) -> None: ...


def test_registered_classes_objects_and_factories() -> None:
    entries = {"ability-class": Both, "ability-object": Both(), "ability-factory": lambda: Both()}
    try:
        for name, entry in entries.items():
            register(name, entry)  # type: ignore[arg-type]
        assert abilities("ability-class") == abilities("ability-object") == {IMAGES, ANSWERS}
        assert abilities("ability-factory") == {IMAGES}
    finally:
        for name in entries:
            REGISTRY.added.pop(name, None)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownName, match="'tim/resnet18' is not known"):
        abilities("tim/resnet18")


def test_a_loaded_model_can_do_what_its_name_said() -> None:
    for name in ("classical/colour", "classical/words", "chat/mock/wren"):
        load = load_chat_model if name.startswith("chat/") else load_model
        assert abilities_of(load(name)) >= abilities(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chat/mock/wren?skill=0.9", "mock"),
        ("chat/mock/anything", "mock"),
        ("chat/mock/wren?base_url=http://127.0.0.1:9/v1", ""),
        ("chat/vllm/some/model", ""),
        ("classical/chance", "control"),
        ("classical/chance?size=32", "control"),
        ("classical/words", ""),
        ("timm/resnet18?pretrained=false", ""),
        ("my_model.py:Mine", ""),
    ],
)
def test_a_family_says_which_of_its_models_are_stand_ins(name: str, said: str) -> None:
    assert stand_in(name) == said
