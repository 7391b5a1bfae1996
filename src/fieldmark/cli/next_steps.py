"""Next step of the chain from photos to a model: the command that fits what is there now."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

FEW = 32
"""a batch for photos that do not fill one of the recipe"""
NAMES_ALONE = ("texts.types.caption=0", 'model.projectors=["taxonomic"]')
"""settings of the recipe `tiny` for shards without captions"""
_KINDS = ("caption", "taxon_com", "sci")


def caption_command(shards: Iterable[str], *more: str) -> str:
    """With a mock, which needs no network, key or GPU."""
    words = [*shards, "--model", "chat/mock/wren", *more, "--out", "captions"]
    return f"fieldmark caption {shlex.join(words)}"


def train_command(
    shards: Iterable[str], n_samples: int, flags: Sequence[str] = (), changes: Sequence[str] = ()
) -> str:
    """Checks a training, with what few photos need."""
    from fieldmark.build.train.recipe import load_recipe

    recipe, changes = load_recipe("tiny"), list(changes)
    if n_samples < recipe.train.batch:
        batch = min(FEW, 1 << max(n_samples, 1).bit_length() - 1)
        n_steps = recipe.train.epochs * (n_samples // batch)
        changes.append(f"train.batch={batch}")
        if recipe.warmup_problem(n_steps):
            changes.append(f"optimiser.warmup_steps={n_steps // 10}")
    words = ["--shards", *shards, *flags, "--out", "runs/try", *(["--set"] if changes else [])]
    return f"fieldmark train tiny {shlex.join([*words, *changes])} --check"


def has_names(extensions: Iterable[str]) -> bool:
    """Whether shards have all texts of the recipe `tiny`, captions apart."""
    from fieldmark.build.train.recipe import load_recipe

    kinds = {f"{kind}.txt" for kind in load_recipe("tiny").texts.types}
    return kinds - {"caption.txt"} <= set(extensions)


def example_line(texts: Mapping[str, str]) -> str:
    """A caption, or else the text that says most."""
    return f'example: "{next((texts[kind] for kind in _KINDS if texts.get(kind)), "")}"'


def example_of(shard: Path) -> str:
    """The same, of the first sample of a shard."""
    from fieldmark.build.shards import MemberReader, read_samples

    sample = next(read_samples(shard))
    with MemberReader(shard) as reader:
        members = {kind: sample.get(f"{kind}.txt") for kind in _KINDS}
        texts = {kind: reader.read(one).decode() for kind, one in members.items() if one}
    return example_line(texts)


def tasks_on(dataset: str) -> list[str]:
    """The shipped tasks on a dataset, those that plainly ask for species first."""
    from fieldmark.tasks import Task, list_tasks, load_task

    names = [row["task"] for row in list_tasks() if row["dataset"] == dataset]
    tasks = [task for task in map(load_task, names) if isinstance(task, Task)]
    is_other = {task.task: (task.label != "scientific_name", len(task.train)) for task in tasks}
    return sorted(is_other, key=is_other.__getitem__)
