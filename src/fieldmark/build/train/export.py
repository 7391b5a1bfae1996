"""Model export: a folder that open_clip loads as it is, with a model card.

    model/      open_clip_config.json + open_clip_model.safetensors, one projector in the place of
                the network's own: `open_clip.create_model_and_transforms("local-dir:model")`
    model-two/  both projectors, for fieldmark: `open-clip/local-dir:model-two?projector=caption`;
                open_clip itself has no place for a second one and refuses it

Every file appears whole or not at all. https://github.com/mlfoundations/open_clip
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.build.train.network import ClipTrainingModel
from fieldmark.build.train.suite import SuiteScore
from fieldmark.errors import DataError, UnknownName, UsageError, first_line
from fieldmark.files import whole_file, write_file
from fieldmark.models.open_clip import CONFIG, PROJECTORS, SECOND, TWO_PROJECTORS, WEIGHTS
from fieldmark.words import SYNTHETIC_NOTE, counted, marked_task

CARD = "README.md"
NETWORK = "network."
"""where the names of open_clip's own weights start in a `ClipTrainingModel`"""
PREPROCESS = ("mean", "std", "interpolation", "resize_mode")
"""what open_clip writes of it; the size is the network's"""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a model's README.md says, beside how it is loaded."""

    title: str
    recipe: str
    """TOML, with every key"""
    n_shards: int
    n_samples: int
    caption_coverage: float
    """share of samples with a caption"""
    caption_models: Sequence[str]
    """that wrote them; none where nobody says"""
    held_out: str
    """which photos are kept for tests; "" = none is known to be"""
    datasets: str
    """that the samples come from; "" = not known"""
    data_digest: str
    data_licence: str
    """"" = not known"""
    n_steps: int
    n_pairs: int
    """image-text pairs seen in training"""
    scores: Sequence[SuiteScore] = ()


def export_model(
    clip_model: ClipTrainingModel,
    weights: Mapping[str, Any],
    folder: Path,
    projector: str = "",
    card: ModelCard | None = None,
) -> None:
    """Writes the folder that stock open_clip loads, with `projector` (the first if not given) in
    the place of the network's own.

    `weights`: the whole state of the model, as `full_state` gives it; where an average is kept,
    `{**state, **average}`. Of `clip_model` itself only its shape is used: it may be sharded.
    """
    number = _projector_number(clip_model, projector or clip_model.projector_names[0])
    state = _open_clip_state(clip_model, weights, number)
    _write(folder, state, clip_model, False)
    if card is not None:
        name = clip_model.projector_names[number]
        write_card(folder, card, _loading(folder, [name], clip_model.projector_names))


def export_two(
    clip_model: ClipTrainingModel,
    weights: Mapping[str, Any],
    folder: Path,
    card: ModelCard | None = None,
) -> None:
    """Writes the folder with both projectors, `taxonomic` and `caption`, for fieldmark."""
    main, second = (_projector_number(clip_model, name) for name in PROJECTORS)
    state = _open_clip_state(clip_model, weights, main)
    beside = _open_clip_state(clip_model, weights, second)
    usual_keys = ("visual.proj", "logit_scale", "logit_bias")
    for name, key in zip(SECOND, usual_keys, strict=True):
        if key in state:
            state[name] = beside[key]
    _write(folder, state, clip_model, True)
    if card is not None:
        write_card(folder, card, _loading(folder, PROJECTORS, clip_model.projector_names))


def can_export_two(clip_model: ClipTrainingModel) -> bool:
    return set(PROJECTORS) <= set(clip_model.projector_names) and clip_model.projections is not None


def _projector_number(clip_model: ClipTrainingModel, projector: str) -> int:
    if projector not in clip_model.projector_names:
        raise UnknownName("projector", projector, clip_model.projector_names)
    return clip_model.projector_names.index(projector)


def _open_clip_state(
    clip_model: ClipTrainingModel, weights: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """Names and shapes as open_clip has them, float32 on the CPU."""
    if lacking := [name for name in clip_model.state_dict() if name not in weights]:
        raise UsageError(
            f"the weights to export lack {lacking[0]} (and {len(lacking) - 1} more): expected the "
            "whole state of this network."
        )
    state = {
        name.removeprefix(NETWORK): value
        for name, value in weights.items()
        if name.startswith(NETWORK)
    }
    if clip_model.projections is not None:
        state["visual.proj"] = weights["projections"][number]
    state["logit_scale"] = weights["scales"][number].reshape(clip_model.logit_shape)
    if clip_model.biases is not None:
        state["logit_bias"] = weights["biases"][number].reshape(clip_model.logit_shape)
    return {name: _stored(value) for name, value in state.items()}


def _stored(value: Any) -> Any:
    value = value.detach().to("cpu")
    return (value.float() if value.is_floating_point() else value).contiguous().clone()


def _config(clip_model: ClipTrainingModel, is_two: bool) -> dict[str, Any]:
    network = copy.deepcopy(clip_model.config["model_cfg"])
    if clip_model.biases is not None:
        network.setdefault("init_logit_bias", -10.0)  # or open_clip makes no place for it
    if is_two:
        network["vision_cfg"][TWO_PROJECTORS] = True
    about = clip_model.config["preprocess_cfg"]
    return {
        "model_cfg": network,
        "preprocess_cfg": {key: about[key] for key in PREPROCESS if key in about},
    }


def _write(
    folder: Path, state: dict[str, Any], clip_model: ClipTrainingModel, is_two: bool
) -> None:
    """The configuration last: a folder that has one is complete.

    With a Hugging Face tokeniser its files too: open_clip reads that of a folder from the folder
    alone, whatever the configuration names.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path, config = folder / WEIGHTS[0], _config(clip_model, is_two)
    with whole_file(path, is_durable=True) as file:
        try:
            save_file(state, file.name, {"format": "pt"})  # `save` would copy them in memory
            # It puts another file there, which only this user may read.
            Path(file.name).chmod(os.fstat(file.fileno()).st_mode & 0o777)
            with Path(file.name).open("rb") as written:
                os.fsync(written.fileno())
        except SafetensorError as error:
            raise DataError(f"{path}  cannot be written: {first_line(error)}.") from error
    if config["model_cfg"]["text_cfg"].get("hf_tokenizer_name"):
        clip_model.tokenise.save(folder)
    write_file(folder / CONFIG, json.dumps(config, indent=2).encode(), is_durable=True)


# --- the model card


def write_card(folder: Path, card: ModelCard, loading: str) -> None:
    """README.md of a folder, in the form of the Hugging Face hub. `loading`: how it is loaded."""
    parts = [
        "---\nlibrary_name: open_clip\npipeline_tag: zero-shot-image-classification\n"
        "tags:\n- clip\n- biology\n- fieldmark\n---",
        f"# {card.title}",
        "Trained with `fieldmark train`.",
        f"## How to load it\n\n{loading}",
        f"## Data\n\n{_data(card)}",
        f"## Scores\n\n{_scores(card.scores)}",
        f"## Recipe\n\n```toml\n{card.recipe.strip()}\n```",
    ]
    write_file(folder / CARD, ("\n\n".join(parts) + "\n").encode())


def _data(card: ModelCard) -> str:
    models = ", ".join(card.caption_models)
    captions = f"{100 * card.caption_coverage:.3g} % of the samples have one"
    if not card.caption_coverage:
        captions, models = "none: trained on names alone", ""
    rows = {
        "samples": f"{card.n_samples:,} in {counted(card.n_shards, 'shard')}",
        **({"datasets": card.datasets} if card.datasets else {}),
        **({"warning": f"{card.held_out}: scores on them are too high"} if card.held_out else {}),
        "captions": f"{captions}, written by {models}" if models else captions,
        "seen in training": f"{card.n_pairs:,} image-text pairs in {counted(card.n_steps, 'step')}",
        "licence of the data": card.data_licence or "not stated: ask whoever gave you the data",
        "digest": f"`{card.data_digest}`",
    }
    return "\n".join(f"- {name}: {value}" for name, value in rows.items())


def _scores(scores: Sequence[SuiteScore]) -> str:
    if not scores:
        return "Not evaluated."
    lines = [
        "| task | asked by | metric | score | 95 % interval | photos |",
        "|---|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {marked_task(row.task, row.is_synthetic)} | {row.protocol} | {row.metric} | "
        f"{row.figures(row.value)} | {row.interval} | {row.n:,} |"
        for row in scores
    ]
    if any(row.is_synthetic for row in scores):
        lines += ["", SYNTHETIC_NOTE]
    of_value = {(row.task, row.value, row.n): row for row in scores if row.metric == "accuracy"}
    same = (of_value.get((row.task, row.value, row.n)) for row in scores)
    if any(
        one and (one.low, one.high) != (row.low, row.high)
        for one, row in zip(same, scores, strict=True)
    ):
        lines += ["", _TWO_INTERVALS]
    return "\n".join(lines)


_TWO_INTERVALS = (
    "`accuracy` can have a narrower interval than another score of the same value: where all "
    "classes have equally many photos, it takes the classes as fixed."
)


def _loading(folder: Path, names: Sequence[str], trained: Sequence[str]) -> str:
    """`names`: the projectors in the folder, of those that were trained."""
    moved = "The path is where the folder was written. Give another one if you have moved it."
    if len(names) > 1:
        models = [f"open-clip/local-dir:{folder}?projector={name}" for name in names]
        listed = "\n".join(models)
        return (
            "With two image projectors, one for names of taxa and one for sentences, which "
            f"open_clip itself does not read:\n\n```\n{listed}\n```\n\n{moved}"
        )
    text = (
        "```python\nimport open_clip\n\n"
        "model, _, preprocess = open_clip.create_model_and_transforms("
        f'"local-dir:{folder}")\n'
        f'tokenizer = open_clip.get_tokenizer("local-dir:{folder}")\n```\n\n'
        f"In fieldmark it is the model `open-clip/local-dir:{folder}`. {moved}"
    )
    if len(trained) > 1:
        text += f" Its image projector is `{names[0]}`, of {', '.join(trained)}."
    return text
