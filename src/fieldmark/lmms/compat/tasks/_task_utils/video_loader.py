"""`lmms_eval.tasks._task_utils.video_loader`: where is the file of a video?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["get_cache_dir", "get_video"]


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
