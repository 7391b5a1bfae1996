"""Small helpers of `lmms_eval`: names and folders, the logger, ANLS of one document, and those of
`lmms_eval.tasks._task_utils`, for task code whose folder brings none of its own.
"""

from __future__ import annotations

import logging
import os
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark.lmms.metrics.registry import anls as document_anls
from fieldmark.lmms.metrics.registry import levenshtein


def _logger() -> Any:
    try:
        from loguru import logger
    except ImportError:
        return logging.getLogger("fieldmark.tasks")
    return logger


eval_logger = _logger()
levenshtein_distance = levenshtein


def resolve_cache_dir(cache_dir: str, base_dir: str | None = None) -> str:
    """The folder with variables and ~ filled in; a relative one starts at `base_dir`."""
    folder = os.path.expandvars(cache_dir)
    folder = os.path.expanduser(folder)  # noqa: PTH111  task code joins texts
    return folder if base_dir is None else os.path.join(base_dir, folder)  # noqa: PTH118


def sanitize_model_name(model_name: str, full_path: bool = False) -> str:
    """A name that can be a folder's: of a path its last two parts, unless all are wanted."""
    name = model_name if full_path else "/".join(model_name.split("/")[-2:])
    return re.sub(r'[<>:"/|\\?*\[\]]+', "__", name)


def anls(
    references: Sequence[str], predictions: Sequence[Any], thresh_hold: float = 0.5
) -> dict[str, float]:
    """`anls` of the metrics, in the form `lmms_eval.api.metrics` gives it."""
    prediction = predictions[0] if isinstance(predictions[0], str) else predictions[0][0]
    return {"anls": document_anls(references, [prediction], thresh_hold)}


MODEL_KEYS = (
    "peft",
    "delta",
    "pretrained",
    "model",
    "model_version",
    "model_name",
    "model_id",
    "path",
    "engine",
)
"""of model arguments that name the model, the first given one counts"""


class GeneralConfigTracker:
    @staticmethod
    def _get_model_name(model_args: str) -> str:
        """The model in `key=value,key=value`; "" when none of the keys is there."""
        pairs = (word.partition("=") for word in str(model_args or "").split(","))
        given = {key.strip(): value for key, _, value in pairs}
        return next((given[key] for key in MODEL_KEYS if key in given), "")


def load_default_template_yaml(task_file: str) -> Any:
    """The content of `_default_template_yaml` beside the file, without lines that name code."""
    import yaml

    template = Path(task_file).parent / "_default_template_yaml"
    lines = template.read_text(encoding="utf-8").splitlines()
    return yaml.safe_load("\n".join(line for line in lines if "!function" not in line))


def generate_submission_file(file_name: str, args: Any, subpath: str = "submissions") -> str:
    """The file's path under the output folder of `args`, else under this one; makes the folder."""
    out = getattr(args, "output_path", None)
    folder = Path() if out is None else Path(out)
    folder = (folder / subpath).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / file_name)


def get_cache_dir(config: dict[str, Any], sub_dir: str = "videos") -> str:
    return str(Path(os.environ["HF_HOME"]) / config["dataset_kwargs"]["cache_dir"] / sub_dir)


def get_video(prefix: str, video_name: object, suffix: str = "mp4") -> str:
    """The file of that name in the folder, with the ending as given, in capitals or not."""
    folder, name = Path(prefix).absolute(), str(video_name)
    endings = dict.fromkeys((suffix, suffix.upper(), suffix.lower()))
    files = [folder / (name if name.endswith(end) else f"{name}.{end}") for end in endings]
    for file in files:
        if file.exists():
            return str(file)
    raise FileNotFoundError(f"there is no {' or '.join(map(str, files))}")


_NUMBER = r"\s*([-+]?\d+\.?\d*)\s*"
_PAIR = re.compile(rf"[\[(]{_NUMBER},{_NUMBER}[\])]")
GRID = 1000
"""whole numbers are thousandths of the picture's width and height, others are parts of it"""


def parse_point2d(text: str, width: int, height: int) -> Any:
    """An array of pixel positions, one row for each pair in round or square brackets."""
    import numpy as np

    points = []
    for x, y in _PAIR.findall(text):
        scale = 1 if "." in x + y else GRID
        points.append((int(float(x) / scale * width), int(float(y) / scale * height)))
    return np.array(points)


LONG = 5
"""words a response must exceed before the options' texts are looked for"""


def get_multi_choice_info(
    options: Sequence[str], start_chr: str = "A"
) -> tuple[dict[str, str], list[str]]:
    """The options by letter, and the letters."""
    by_letter = {chr(ord(start_chr) + i): option for i, option in enumerate(options)}
    return by_letter, list(by_letter)


def parse_mmmu_multi_choice_response(
    response: str, all_choices: Sequence[str], index2ans: Mapping[str, str]
) -> str:
    for mark in ",.!?;:'":
        response = response.strip(mark)
    response = f" {response} "
    for form, pattern in (("({})", "({})"), ("{} ", " {} "), ("{}.", " {} ")):
        named = [choice for choice in all_choices if form.format(choice) in response]
        if named:
            return _last(named, [response.rfind(pattern.format(choice)) for choice in named])
    if len(response.split()) > LONG:
        text = response.lower()
        named = [letter for letter, choice in index2ans.items() if choice.lower() in text]
        if named:
            return _last(named, [text.rfind(index2ans[choice].lower()) for choice in named])
    return random.choice(list(all_choices))


def _last(named: Sequence[str], positions: Sequence[int]) -> str:
    return named[positions.index(max(positions))]
